package checkout_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stint-dev/stint/internal/worker/checkout"
)

func TestWaitForEarlierStarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s checkout.Starts
		s.Wait(t.Context()) // returns at once, because no start is in progress
		first, second := s.Begin(), s.Begin()
		waited := make(chan struct{}, 2)
		for range cap(waited) {
			go func() {
				s.Wait(t.Context())
				waited <- struct{}{}
			}()
			synctest.Wait()
		}
		later := s.Begin()
		first()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("it did not wait for both starts")
		default:
		}
		second()
		for range cap(waited) {
			<-waited // Wait does not wait for the later start
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		s.Wait(cancelled) // returns at once, although a start is in progress
		later()
		s.Wait(t.Context())
	})
}
