package worker

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestWaitIsForThoseThatBeganBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f forks
		f.wait(t.Context()) // for nobody
		first, second := f.begin(), f.begin()
		waited := make(chan struct{}, 2)
		for range cap(waited) {
			go func() {
				f.wait(t.Context())
				waited <- struct{}{}
			}()
			synctest.Wait()
		}
		later := f.begin()
		first()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("it did not wait for all")
		default:
		}
		second()
		for range cap(waited) {
			<-waited // not for the later one
		}
		given, giveUp := context.WithCancel(t.Context())
		giveUp()
		f.wait(given) // which is over, so it does not wait
		later()
		f.wait(t.Context())
	})
}
