package api

import (
	"net/http"
	"strconv"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/paging"
)

// events responds with a run's journal: as an event stream or as a paged list,
// depending on Accept.
func (a *api) events(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	s, err := a.openEvents(w, r, *c)
	if s == nil || err != nil {
		return err
	}
	defer s.close()
	s.run(r.Context()) // not called in openEvents, because its large stack frame would remain while the stream is open
	return nil
}

// openEvents returns an event stream that the caller must run. If the response
// needs no stream, openEvents writes it and returns nil.
func (a *api) openEvents(w http.ResponseWriter, r *http.Request, c auth.Caller) (*eventStream, error) {
	format, err := acceptedEventFormat(r.Header["Accept"])
	if err != nil {
		return nil, err
	}
	id, q := r.PathValue("id"), queryOf(r)
	after, byHeader := lastEventID(r, q)
	if q.err != nil {
		return nil, q.err
	}
	if err := a.checkRun(r, c, id); err != nil {
		return nil, err
	}
	head, status, err := a.c.Feed.Head(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if after > head {
		return nil, stint.InvalidParam("lastEventId", "The run has no event '%d' yet; its last event is '%d'.", after, head)
	}
	h := w.Header()
	h.Add("Vary", "Accept")
	if format == eventList {
		return nil, a.listEvents(w, r, c, q, after)
	}
	h["Cache-Control"] = noStore
	h.Set("X-Accel-Buffering", "no") // makes proxies forward each event at once
	ended := status.Final() && after == head
	if ended && byHeader {
		w.WriteHeader(http.StatusNoContent) // makes an EventSource in a browser stop reconnecting
		return nil, nil
	}
	h.Set("Content-Type", "text/event-stream")
	if ended || r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil, nil
	}
	return a.newEventStream(w, r, c, after), nil
}

// lastEventID returns the position of the last event that the client has, or 0 if it
// has none. byHeader is true if the position is from the header Last-Event-ID, which
// takes precedence over the query parameter.
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

type eventFormat int

const (
	streamedEvents eventFormat = iota
	eventList
)

// acceptedEventFormat returns the format that the client prefers according to its
// Accept headers, and streamedEvents if it prefers neither. It returns an error if
// the client accepts neither format.
func acceptedEventFormat(accept []string) (eventFormat, error) {
	if len(accept) == 0 {
		return streamedEvents, nil
	}
	stream, list := quality(accept, "text", "event-stream"), quality(accept, "application", "json")
	switch {
	case stream <= 0 && list <= 0:
		return 0, &stint.Error{
			Kind: stint.KindNotAcceptable, Code: stint.CodeNotAcceptable, Param: "Accept",
			Message: "Events are available as 'text/event-stream' or 'application/json'. Accept one of them.",
		}
	case list > stream:
		return eventList, nil
	}
	return streamedEvents, nil
}

// listEvents responds with a page of the journal that starts after the position in
// the cursor, or else after the position after.
func (a *api) listEvents(w http.ResponseWriter, r *http.Request, c auth.Caller, q *query, after int64) error {
	limit, l := q.limit(), a.listOf(r, c, q, "lastEventId")
	if position := l.position(); position != nil {
		n, err := strconv.ParseInt(string(position), 10, 64)
		if err != nil {
			q.fail(paging.ErrCursor)
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
	page, err := paging.Encode(l.List, events, more, func(last *stint.Event) []byte {
		return strconv.AppendInt(nil, last.Seq, 10)
	})
	if err != nil {
		return err
	}
	jsonResponse(http.StatusOK, page).write(w)
	return nil
}

func (a *api) streamToken(p *post) (*response, error) {
	id := p.r.PathValue("id")
	if err := a.checkRun(p.r, p.caller, id); err != nil {
		return nil, err
	}
	token, expires, err := a.c.Auth.StreamToken(p.caller, id)
	if err != nil {
		return nil, err
	}
	return jsonResponse(http.StatusCreated, struct {
		Token     string     `json:"token"`
		ExpiresAt stint.Time `json:"expiresAt"`
	}{token, expires}), nil
}
