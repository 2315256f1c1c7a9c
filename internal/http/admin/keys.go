package admin

import "net/http"

func (s *server) listKeys(w http.ResponseWriter, r *http.Request) {
	list, err := s.c.Keys.List(r.Context())
	if err != nil {
		s.fail(w, "list the keys", err)
		return
	}
	respond(w, http.StatusOK, list)
}

func (s *server) rotateKeys(w http.ResponseWriter, r *http.Request) {
	var in struct{ Org string }
	if !decode(w, r, &in) {
		return
	}
	rotated, err := s.c.Keys.RotateAll(r.Context(), in.Org)
	if err != nil {
		s.fail(w, "rotate the keys", err)
		return
	}
	respond(w, http.StatusOK, rotated)
}
