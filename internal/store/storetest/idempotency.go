package storetest

import (
	"errors"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

const (
	staleAfter = time.Minute
	keptFor    = 24 * time.Hour
)

var idempotencyCases = []testCase{
	{"the first request owns the key until it is answered", func(w *world) {
		w.home.begin("key", "f", w.now(), nil)
		_, err := w.home.beginRequest("key", "f", w.now())
		w.wantErr(err, store.ErrKeyInUse, "the same request meanwhile")
		want := &store.Answer{Status: 201, Header: map[string]string{"Location": "/x", "Content-Type": "application/json"}, Body: []byte("{\"a\":\x00}")}
		w.must(w.s.EndRequest(w.ctx, w.home.org, "key", want), "EndRequest")
		w.home.begin("key", "f", w.now(), want)
		w.home.begin("key", "f", w.now(), want)
	}},
	{"an empty answer is an answer", func(w *world) {
		w.home.begin("key", "f", w.now(), nil)
		w.must(w.s.EndRequest(w.ctx, w.home.org, "key", &store.Answer{Status: 204}), "EndRequest")
		w.home.begin("key", "f", w.now(), &store.Answer{Status: 204})
	}},
	{"a key belongs to one request", func(w *world) {
		w.home.begin("key", "f", w.now(), nil)
		_, err := w.home.beginRequest("key", "other", w.now())
		w.wantErr(err, store.ErrKeyReused, "another request meanwhile")
		w.must(w.s.EndRequest(w.ctx, w.home.org, "key", &store.Answer{Status: 204}), "EndRequest")
		_, err = w.home.beginRequest("key", "other", w.now())
		w.wantErr(err, store.ErrKeyReused, "another request after the answer")
	}},
	{"keys are an organisation's own", func(w *world) {
		w.home.begin("key", "f", w.now(), nil)
		w.must(w.s.EndRequest(w.ctx, w.home.org, "key", &store.Answer{Status: 204}), "EndRequest")
		w.home.begin("KEY", "g", w.now(), nil)
		w.tenant("other").begin("key", "g", w.now(), nil)
	}},
	{"a key that was given up is free", func(w *world) {
		w.home.begin("key", "f", w.now(), nil)
		w.must(w.s.EndRequest(w.ctx, w.home.org, "key", nil), "EndRequest")
		w.home.begin("key", "other", w.now(), nil)
	}},
	{"a stale claim is taken over, a younger one is not", func(w *world) {
		now := w.now()
		w.home.begin("key", "f", now, nil)
		_, err := w.home.beginRequest("key", "f", later(now, staleAfter-time.Second))
		w.wantErr(err, store.ErrKeyInUse, "a claim below the limit")
		w.home.begin("key", "f", later(now, staleAfter+time.Second), nil)
		_, err = w.home.beginRequest("key", "f", later(now, staleAfter+2*time.Second))
		w.wantErr(err, store.ErrKeyInUse, "a claim that was just taken over")
	}},
	{"an answer is no stale claim", func(w *world) {
		now, want := w.now(), &store.Answer{Status: 200, Body: []byte("x")}
		w.home.begin("key", "f", now, nil)
		w.must(w.s.EndRequest(w.ctx, w.home.org, "key", want), "EndRequest")
		w.home.begin("key", "f", later(now, keptFor-time.Second), want)
	}},
	{"of many who begin one owns the key", func(w *world) {
		start := w.now()
		for _, now := range []stint.Time{start, later(start, 2*staleAfter)} {
			owned := make([]bool, 16)
			w.together(len(owned), func(i int) error {
				_, err := w.home.beginRequest("key", "f", now)
				owned[i] = err == nil
				if errors.Is(err, store.ErrKeyInUse) {
					return nil
				}
				return err
			})
			w.diff("owners", 1, count(owned))
		}
	}},
	{"PurgeRequests removes what expired and nothing else", func(w *world) {
		now := w.now()
		for _, key := range []string{"old", "young"} {
			w.home.begin(key, "f", now, nil)
			w.must(w.s.EndRequest(w.ctx, w.home.org, key, &store.Answer{Status: 200}), "EndRequest")
			now = later(now, time.Hour)
		}
		for _, want := range []int64{1, 0} {
			n, err := w.s.PurgeRequests(w.ctx, later(now, keptFor-90*time.Minute))
			w.must(err, "PurgeRequests")
			w.diff("removed", want, n)
		}
		w.home.begin("young", "f", now, &store.Answer{Status: 200})
		w.home.begin("old", "other", now, nil)
	}},
}

func (o *tenant) beginRequest(key, fingerprint string, now stint.Time) (*store.Answer, error) {
	return o.w.s.BeginRequest(o.w.ctx, o.org, key, []byte(digest(fingerprint)), now, later(now, -staleAfter), later(now, keptFor))
}

func (o *tenant) begin(key, fingerprint string, now stint.Time, want *store.Answer) {
	o.w.Helper()
	got, err := o.beginRequest(key, fingerprint, now)
	o.w.must(err, "BeginRequest")
	o.w.diff("answer", want, got)
}
