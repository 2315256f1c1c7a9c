package admin

import (
	"fmt"
	"net/http"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint"
)

// loginRequest is the body of POST /login.
type loginRequest struct {
	Org  string `json:"org"`
	User string `json:"user"`
	stint.NewToken
}

// setDefaults sets missing members. The default user is the name of the operating
// system's user with the given ID, or "uid-" and the ID if the user has no name.
func (r *loginRequest) setDefaults(uid uint32) {
	if r.Org == "" {
		r.Org = "default"
	}
	if r.User == "" {
		r.User = fmt.Sprintf("uid-%d", uid)
		if u, err := user.LookupId(strconv.Itoa(int(uid))); err == nil {
			r.User = u.Username
		}
	}
	if r.Name == "" {
		r.Name = "login"
	}
}

// loginResponse is a new token and the address of the server.
type loginResponse struct {
	stint.Token
	URL string `json:"url"`
}

func (s *server) login(w http.ResponseWriter, r *http.Request) {
	var in loginRequest
	if !decode(w, r, &in) {
		return
	}
	if peer, ok := r.Context().Value(peerKey{}).(*unix.Ucred); ok {
		in.setDefaults(peer.Uid)
	}
	token, err := s.c.Auth.Login(r.Context(), in.Org, in.User, in.NewToken)
	if err != nil {
		s.fail(w, "create a token", err)
		return
	}
	respond(w, http.StatusCreated, loginResponse{Token: token, URL: s.c.URL})
}

// logout revokes the token in the request, for a login that failed after it was created.
func (s *server) logout(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Token string `json:"token"`
	}
	if !decode(w, r, &in) {
		return
	}
	caller, err := s.c.Auth.Authenticate(r.Context(), in.Token)
	if err == nil {
		err = s.c.Auth.RevokeToken(r.Context(), caller, caller.TokenID)
	}
	if err != nil {
		s.fail(w, "revoke a token", err)
		return
	}
	respond(w, http.StatusOK, struct{}{})
}
