package storetest

import (
	"errors"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

const (
	staleAfter = time.Minute    // the same request, sent again, takes over a claimed key after this time
	keptFor    = 24 * time.Hour // the store keeps an answer for this time
)

var idempotencyCases = []testCase{
	{"the first request owns the key until it is answered", func(w *world) {
		since := w.home.begin("key", "f", w.now(), nil)
		_, err := w.home.beginRequest("key", "f", w.now())
		w.wantErr(err, store.ErrKeyInUse, "the same request in progress")
		want := &store.Answer{Status: 201, Header: map[string]string{"Location": "/x", "Content-Type": "application/json"}, Body: []byte("{\"a\":\x00}")}
		w.must(w.s.EndRequest(w.ctx, w.home.org, "key", since, want), "EndRequest")
		w.home.begin("key", "f", w.now(), want)
		w.home.begin("key", "f", w.now(), want)
	}},
	{"an empty answer is stored", func(w *world) {
		since := w.home.begin("key", "f", w.now(), nil)
		w.must(w.s.EndRequest(w.ctx, w.home.org, "key", since, &store.Answer{Status: 204}), "EndRequest")
		w.home.begin("key", "f", w.now(), &store.Answer{Status: 204})
	}},
	{"a key belongs to one request", func(w *world) {
		since := w.home.begin("key", "f", w.now(), nil)
		_, err := w.home.beginRequest("key", "other", w.now())
		w.wantErr(err, store.ErrKeyReused, "another request meanwhile")
		w.must(w.s.EndRequest(w.ctx, w.home.org, "key", since, &store.Answer{Status: 204}), "EndRequest")
		_, err = w.home.beginRequest("key", "other", w.now())
		w.wantErr(err, store.ErrKeyReused, "another request after the answer")
	}},
	{"organisations have separate keys", func(w *world) {
		since := w.home.begin("key", "f", w.now(), nil)
		w.must(w.s.EndRequest(w.ctx, w.home.org, "key", since, &store.Answer{Status: 204}), "EndRequest")
		w.home.begin("KEY", "g", w.now(), nil)
		w.tenant("other").begin("key", "g", w.now(), nil)
	}},
	{"a released key is free", func(w *world) {
		since := w.home.begin("key", "f", w.now(), nil)
		w.must(w.s.EndRequest(w.ctx, w.home.org, "key", since, nil), "EndRequest")
		w.home.begin("key", "other", w.now(), nil)
	}},
	{"only a stale claim is taken over", func(w *world) {
		now := w.now()
		w.home.begin("key", "f", now, nil)
		_, err := w.home.beginRequest("key", "f", later(now, staleAfter-time.Second))
		w.wantErr(err, store.ErrKeyInUse, "a claim below the limit")
		w.home.begin("key", "f", later(now, staleAfter+time.Second), nil)
		_, err = w.home.beginRequest("key", "f", later(now, staleAfter+2*time.Second))
		w.wantErr(err, store.ErrKeyInUse, "a claim that was just taken over")
	}},
	{"after a takeover the first request cannot store an answer or release the key", func(w *world) {
		first := w.home.begin("key", "f", w.now(), nil)
		second := w.home.begin("key", "f", later(first, staleAfter+time.Second), nil)
		late := &store.Answer{Status: 500, Body: []byte("late")}
		w.wantErr(w.s.EndRequest(w.ctx, w.home.org, "key", first, late), store.ErrKeyInUse, "EndRequest of a lost key")
		w.must(w.s.EndRequest(w.ctx, w.home.org, "key", first, nil), "EndRequest without an answer")
		_, err := w.home.beginRequest("key", "f", later(second, time.Second))
		w.wantErr(err, store.ErrKeyInUse, "the same request in progress")
		want := &store.Answer{Status: 200, Body: []byte("x")}
		w.must(w.s.EndRequest(w.ctx, w.home.org, "key", second, want), "EndRequest")
		w.wantErr(w.s.EndRequest(w.ctx, w.home.org, "key", first, late), store.ErrKeyInUse, "EndRequest after the answer")
		w.home.begin("key", "f", later(second, time.Second), want)
	}},
	{"one key creates one run", func(w *world) {
		first := w.home.begin("key", "f", w.now(), nil)
		second := w.home.begin("key", "f", later(first, staleAfter+time.Second), nil)
		create := func(claimed stint.Time, claimer *store.ClaimRequest) (string, error) {
			n := w.home.newRun(func(n *store.NewRun) { n.Key, n.Claimed, n.Answer = "key", claimed, &store.Answer{Status: 202} })
			_, err := w.s.CreateRun(w.ctx, n, claimer)
			return n.ID, err
		}
		for _, claimer := range []*store.ClaimRequest{nil, {WorkerID: w.worker(), Max: 1, At: w.now()}} {
			id, err := create(first, claimer)
			w.wantErr(err, store.ErrKeyInUse, "CreateRun of who lost the key")
			_, err = w.s.Run(w.ctx, w.home.org, id)
			w.wantErr(err, store.ErrNotFound, "Run")
		}
		_, err := create(second, nil)
		w.must(err, "CreateRun of who has the key")
		_, err = create(first, nil)
		w.wantErr(err, store.ErrKeyInUse, "CreateRun after the answer")
		w.home.begin("key", "f", later(second, time.Second), &store.Answer{Status: 202})
		w.diff("runs to claim", 1, len(w.claim(w.worker(), 10)))
	}},
	{"an answered request is not taken over", func(w *world) {
		now, want := w.now(), &store.Answer{Status: 200, Body: []byte("x")}
		w.home.begin("key", "f", now, nil)
		w.must(w.s.EndRequest(w.ctx, w.home.org, "key", now, want), "EndRequest")
		w.home.begin("key", "f", later(now, keptFor-time.Second), want)
	}},
	{"concurrent requests: one owns the key", func(w *world) {
		start := w.now()
		for _, now := range []stint.Time{start, later(start, 2*staleAfter)} {
			owned := make([]bool, 16)
			w.concurrently(len(owned), func(i int) error {
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
	{"PurgeRequests removes only expired answers", func(w *world) {
		now := w.now()
		for _, key := range []string{"old", "young"} {
			w.home.begin(key, "f", now, nil)
			w.must(w.s.EndRequest(w.ctx, w.home.org, key, now, &store.Answer{Status: 200}), "EndRequest")
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

// begin calls BeginRequest and checks that it returns the answer want. If want is nil, the
// call must claim the key. begin returns now, which is then the time of the claim.
func (o *tenant) begin(key, fingerprint string, now stint.Time, want *store.Answer) stint.Time {
	o.w.Helper()
	got, err := o.beginRequest(key, fingerprint, now)
	o.w.must(err, "BeginRequest")
	o.w.diff("answer", want, got)
	return now
}
