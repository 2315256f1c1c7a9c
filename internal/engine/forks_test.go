package engine

import (
	"testing"
	"testing/synctest"
)

func TestWaitIsForThoseThatBeganBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f forks
		f.wait() // for nobody
		first, second := f.begin(), f.begin()
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			f.wait()
		}()
		synctest.Wait()
		later := f.begin()
		first()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("it did not wait for all")
		default:
		}
		second()
		<-waited // not for the later one
		later()
		f.wait()
	})
}
