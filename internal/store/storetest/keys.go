package storetest

import (
	"fmt"

	"github.com/stint-dev/stint/internal/store"
)

var keyCases = []testCase{
	{"AddOrgKey returns the existing key", func(w *world) {
		first, second := w.home.orgKey(1, "first"), w.home.orgKey(1, "second")
		for _, k := range []store.OrgKey{first, second} {
			got, err := w.s.AddOrgKey(w.ctx, k)
			w.must(err, "AddOrgKey")
			w.diff("key", first, got)
		}
		got, err := w.s.OrgKey(w.ctx, w.home.org, 1)
		w.must(err, "OrgKey")
		w.diff("key", first, got)
	}},
	{"concurrent AddOrgKey stores one key", func(w *world) {
		got := make([]store.OrgKey, 8)
		w.concurrently(len(got), func(i int) (err error) {
			got[i], err = w.s.AddOrgKey(w.ctx, w.home.orgKey(1, fmt.Sprint(i)))
			return err
		})
		for _, k := range got {
			w.diff("key", got[0], k)
		}
	}},
	{"OrgKey with 0 returns the greatest number", func(w *world) {
		for _, n := range []uint32{1, 2, 10} {
			_, err := w.s.AddOrgKey(w.ctx, w.home.orgKey(n, "x"))
			w.must(err, "AddOrgKey")
			got, err := w.s.OrgKey(w.ctx, w.home.org, 0)
			w.must(err, "OrgKey")
			w.diff("number", n, got.Number)
		}
		_, err := w.s.OrgKey(w.ctx, w.home.org, 3)
		w.wantErr(err, store.ErrNotFound, "OrgKey of a number that is not there")
		_, err = w.s.OrgKey(w.ctx, w.tenant("other").org, 0)
		w.wantErr(err, store.ErrNotFound, "OrgKey of another organisation")
	}},
	{"keys are listed by organisation and number", func(w *world) {
		other := w.tenant("other")
		none := &tenant{w: w}
		want := []store.OrgKey{none.orgKey(1, "n"), w.home.orgKey(1, "a"), w.home.orgKey(2, "b"), other.orgKey(1, "c")}
		want[3].OrgName = "other"
		for _, i := range []int{2, 0, 3, 1} {
			_, err := w.s.AddOrgKey(w.ctx, want[i])
			w.must(err, "AddOrgKey")
		}
		var got []store.OrgKey
		for at := (store.OrgKey{}); ; {
			page, err := w.s.OrgKeys(w.ctx, at.OrgID, at.Number, 1)
			w.must(err, "OrgKeys")
			if len(page) == 0 {
				break
			}
			at, got = page[0], append(got, page...)
		}
		w.diff("keys", want, got)
	}},
	{"sealed texts are listed and resealed", func(w *world) {
		_, err := w.s.AddOrgKey(w.ctx, w.home.orgKey(1, "key"))
		w.must(err, "AddOrgKey")
		for _, name := range []string{"A", "B"} {
			_, err = w.s.PutSecret(w.ctx, w.home.secret(name, "of "+name))
			w.must(err, "PutSecret")
		}
		run, bare := w.home.create(), w.home.create(func(n *store.NewRun) { n.Sealed = nil })
		want := map[store.SealedKind][]store.SealedText{
			store.SealedOrgKey: {{Kind: store.SealedOrgKey, Org: w.home.org, Number: 1, Sealed: []byte("key")}},
			store.SealedSecret: {
				{Kind: store.SealedSecret, Org: w.home.org, Name: "A", Sealed: []byte("of A")},
				{Kind: store.SealedSecret, Org: w.home.org, Name: "B", Sealed: []byte("of B")},
			},
			store.SealedRun: {{Kind: store.SealedRun, Name: run.ID, Sealed: []byte("sealed")}},
		}
		for _, kind := range store.SealedKinds {
			got := w.sealedTexts(kind)
			w.diff("sealed texts", want[kind], got)
			for _, t := range got {
				done, err := w.s.Reseal(w.ctx, t, []byte("anew"))
				w.must(err, "Reseal")
				again, err := w.s.Reseal(w.ctx, t, []byte("too late"))
				w.must(err, "Reseal of what was replaced")
				w.diff("done", []bool{true, false}, []bool{done, again})
			}
			for _, t := range w.sealedTexts(kind) {
				w.diff(string(kind), "anew", string(t.Sealed))
			}
		}
		w.diff("a run without secrets", []byte(nil), w.home.run(bare.ID).Sealed)
		list, err := w.s.Secrets(w.ctx, w.home.org)
		w.must(err, "Secrets")
		w.diff("owner", list[0].AssociatedData(), store.SealedText{Kind: store.SealedSecret, Org: w.home.org, Name: "A"}.AssociatedData())
	}},
}

func (o *tenant) orgKey(number uint32, sealed string) store.OrgKey {
	k := store.OrgKey{OrgID: o.org, Number: number, Sealed: []byte(sealed), CreatedAt: o.w.now()}
	if o.org != "" {
		k.OrgName = "home"
	}
	return k
}

// sealedTexts returns all sealed texts of a kind. It reads them in pages of one text each.
func (w *world) sealedTexts(kind store.SealedKind) (list []store.SealedText) {
	w.Helper()
	for at := (store.SealedText{Kind: kind}); ; {
		page, err := w.s.SealedTexts(w.ctx, at, 1)
		w.must(err, "SealedTexts")
		if len(page) == 0 {
			return list
		}
		at, list = page[0], append(list, page...)
	}
}
