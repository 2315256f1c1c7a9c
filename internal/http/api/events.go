package api

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

// events answers with a run's journal: as a stream that follows it, or as a
// paged list, as the client accepts.
func (a *api) events(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	s, err := a.openEvents(w, r, *c)
	if s == nil || err != nil {
		return err
	}
	defer s.close()
	s.run() // apart from what came before, whose frames are large: it may rest here for hours
	return nil
}

// openEvents answers, or opens the stream that does.
func (a *api) openEvents(w http.ResponseWriter, r *http.Request, c auth.Caller) (*stream, error) {
	form, err := acceptedForm(r.Header["Accept"])
	if err != nil {
		return nil, err
	}
	id, q := r.PathValue("id"), queryOf(r)
	after, byHeader := lastEventID(r, q)
	if q.err != nil {
		return nil, q.err
	}
	if err := a.mustSee(r, c, id); err != nil {
		return nil, err
	}
	head, status, err := a.c.Feed.Head(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if after > head {
		return nil, stint.InvalidParam("lastEventId", "The run has no event '%d' yet; its last is '%d'.", after, head)
	}
	h := w.Header()
	h.Add("Vary", "Accept")
	if form == formJSON {
		return nil, a.eventList(w, r, c, q, after)
	}
	h["Cache-Control"] = noStore
	h.Set("X-Accel-Buffering", "no") // proxies pass each event on at once
	ended := status.Final() && after == head
	if ended && byHeader {
		w.WriteHeader(http.StatusNoContent) // tells an EventSource not to come again
		return nil, nil
	}
	h.Set("Content-Type", "text/event-stream")
	if ended || r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil, nil
	}
	return a.openStream(w, r, c, after), nil
}

// lastEventID is the event after which the client wants to read on; 0 for the
// beginning. The header wins over the parameter.
func lastEventID(r *http.Request, q *query) (after int64, byHeader bool) {
	text := r.Header.Get("Last-Event-ID")
	byHeader = text != ""
	if !byHeader {
		text, _ = q.text("lastEventId")
	}
	if text == "" {
		return 0, false
	}
	after, err := strconv.ParseInt(text, 10, 64)
	if err != nil || after < 1 || strconv.FormatInt(after, 10) != text {
		q.fail(stint.InvalidParam("lastEventId", "The last event ID must be the 'id' of an event of this run."))
	}
	return after, byHeader
}

type form int

const (
	formStream form = iota
	formJSON
)

// acceptedForm chooses what the client likes best, the stream where it likes
// both alike.
func acceptedForm(accept []string) (form, error) {
	if len(accept) == 0 {
		return formStream, nil
	}
	stream, list := quality(accept, "text", "event-stream"), quality(accept, "application", "json")
	switch {
	case stream <= 0 && list <= 0:
		return 0, &stint.Error{
			Kind: stint.KindNotAcceptable, Code: stint.CodeNotAcceptable, Param: "Accept",
			Message: "Events come as 'text/event-stream' or as 'application/json'. Accept one of them.",
		}
	case list > stream:
		return formJSON, nil
	}
	return formStream, nil
}

// quality is how much an Accept header wants a media type, 0 for not at all.
// The most specific range that fits decides.
func quality(accept []string, typ, subtype string) float64 {
	best, specific := 0.0, -1
	for _, line := range accept {
		for part := range strings.SplitSeq(line, ",") {
			media, params, err := mime.ParseMediaType(part)
			if err != nil {
				continue
			}
			level := map[string]int{typ + "/" + subtype: 2, typ + "/*": 1, "*/*": 0}
			if l, fits := level[media]; fits && l > specific {
				best, specific = 1, l
				if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
					best = q
				}
			}
		}
	}
	return best
}

// eventList is a page of the journal.
func (a *api) eventList(w http.ResponseWriter, r *http.Request, c auth.Caller, q *query, after int64) error {
	limit, l := q.limit(), a.listOf(r, c, q, "lastEventId")
	if position := l.position(); position != nil {
		n, err := strconv.ParseInt(string(position), 10, 64)
		if err != nil {
			q.fail(errCursor)
		}
		after = n
	}
	if q.err != nil {
		return q.err
	}
	events, more, err := a.c.Feed.Events(r.Context(), r.PathValue("id"), after, limit)
	if err != nil {
		return err
	}
	jsonReply(http.StatusOK, pageOf(l, events, more, func(last *stint.Event) []byte {
		return strconv.AppendInt(nil, last.Seq, 10)
	})).write(w)
	return nil
}

func (a *api) streamToken(p *post) (*reply, error) {
	id := p.r.PathValue("id")
	if err := a.mustSee(p.r, p.caller, id); err != nil {
		return nil, err
	}
	token, expires, err := a.c.Auth.StreamToken(p.caller, id)
	if err != nil {
		return nil, err
	}
	return jsonReply(http.StatusCreated, struct {
		Token     string     `json:"token"`
		ExpiresAt stint.Time `json:"expiresAt"`
	}{token, expires}), nil
}
