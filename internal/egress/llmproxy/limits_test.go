package llmproxy_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/llmproxy"
	"github.com/stint-dev/stint/internal/egress/proxy"
)

// heldBody is a request body. Read closes reached, waits until release is closed, and
// returns io.EOF.
type heldBody struct {
	reached, release chan struct{}
	once             sync.Once
}

func newHeldBody() *heldBody {
	return &heldBody{reached: make(chan struct{}), release: make(chan struct{})}
}

func (b *heldBody) Read([]byte) (int, error) {
	b.once.Do(func() { close(b.reached) })
	<-b.release
	return 0, io.EOF
}

func TestRequestsInProgressAreLimited(t *testing.T) {
	t.Parallel()
	provider := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer provider.Close()
	p, err := llmproxy.New(llmproxy.Config{
		Type: stint.ProviderAnthropic, BaseURL: "http://provider.test", Idle: time.Minute, Now: time.Now,
		Dial: func(ctx context.Context, _ string, _ uint16) (net.Conn, string, error) {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", provider.Listener.Addr().String())
			return c, "", err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	send := func(body io.Reader, length int64) (*httptest.ResponseRecorder, proxy.Exchange) {
		r := httptest.NewRequest(http.MethodPost, "/v1/messages", body)
		r.ContentLength = length
		w, x := httptest.NewRecorder(), proxy.Exchange{}
		p.Handler(r, &x)(w, r)
		return w, x
	}
	var work sync.WaitGroup
	held := []*heldBody{newHeldBody(), newHeldBody()}
	for _, b := range held {
		work.Go(func() {
			if w, _ := send(b, 64<<20); w.Code != http.StatusOK {
				t.Errorf("a held request: %d %s", w.Code, w.Body)
			}
		})
		<-b.reached
	}
	for _, length := range []int64{2, -1} { // refused before the body is read, and while it is read
		w, x := send(strings.NewReader("{}"), length)
		if w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), `"type":"rate_limit_error"`) || w.Header().Get("X-Should-Retry") != "" || !x.Refused || x.Err == nil {
			t.Errorf("length %d: %d %s %v, %+v", length, w.Code, w.Body, w.Header(), x)
		}
	}
	close(held[0].release)
	close(held[1].release)
	work.Wait()
	if w, x := send(strings.NewReader("{}"), 2); w.Code != http.StatusOK || x.Err != nil {
		t.Errorf("afterwards: %d %s, %+v", w.Code, w.Body, x)
	}
}

// A line of more than 8 MiB in a stream of events, or another response of more than 16 MiB,
// is not parsed. Its usage is estimated.
func TestLongResponsesAreEstimated(t *testing.T) {
	t.Parallel()
	const (
		event    = `data: {"id":"","model":"m","usage":{"prompt_tokens":30,"completion_tokens":20}}`
		response = `{"id":"","model":"m","usage":{"prompt_tokens":30,"completion_tokens":20}}`
	)
	padded := func(text string, length int) string {
		return strings.Replace(text, `"id":"`, `"id":"`+strings.Repeat("x", length-len(text)), 1)
	}
	reported := stint.Tokens{InputTokens: 30, OutputTokens: 20, ModelCalls: 1}
	for _, c := range []struct {
		name, response string
		events         bool
		want           stint.Tokens
	}{
		{"a line of 8 MiB", padded(event, 8<<20) + "\n\n", true, reported},
		{"a longer line", padded(event, 8<<20+1) + "\n\n", true, stint.Tokens{InputTokens: 25, ModelCalls: 1}},
		{"a line after a longer one", padded(event, 9<<20) + "\n\n" + event + "\n\n", true, reported},
		{"a response of 16 MiB", padded(response, 16<<20), false, reported},
		{"a longer response", padded(response, 16<<20+1), false, stint.Tokens{InputTokens: 25, OutputTokens: 4 << 20, ModelCalls: 1}},
	} {
		got := llmproxy.Estimated([]byte(c.response), c.events, false, 100, false)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	model, got := llmproxy.Metered([]byte(padded(response, 16<<20+1)), false, false, 32<<10)
	if diff := cmp.Diff(stint.Tokens{ModelCalls: 1}, got); diff != "" || model != "" {
		t.Errorf("in pieces: model %q (-want +got):\n%s", model, diff)
	}
}

// TestCompressedResponsesAreLimited checks that the compressed size and the decompressed size of
// a counted response are limited.
func TestCompressedResponsesAreLimited(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		level      int
		size       int   // MiB
		from, upTo int64 // counted MiB
	}{
		{"a small response", gzip.BestSpeed, 1, 1, 1},
		{"more than 128 MiB of text", gzip.BestSpeed, 129, 128, 128},
		{"more than 16 MiB of gzip", gzip.NoCompression, 20, 15, 17},
	} {
		var mebibyte bytes.Buffer
		z, err := gzip.NewWriterLevel(&mebibyte, c.level)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = z.Write(make([]byte, 1<<20))
		z.Close()
		got := llmproxy.EstimatedCompressed(bytes.Repeat(mebibyte.Bytes(), c.size)) // gzip texts can be concatenated
		if n := 4 * got.OutputTokens; n < c.from<<20 || n > c.upTo<<20 {
			t.Errorf("%s: %d bytes are counted, want %d to %d MiB", c.name, n, c.from, c.upTo)
		}
	}
}
