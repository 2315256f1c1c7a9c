package llmproxy

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/egress/policy"
)

// shouldRetry is the header by which clients of the dialects are told whether
// another try may do better.
const shouldRetry = "X-Should-Retry"

// fault is an answer of ours.
type fault struct {
	status  int
	kind    string // as the dialects name it
	message string
	rule    string // that refused, where it is another than that of the way
	retry   bool   // another try may do better
}

var (
	errLarge      = errors.New("the request is too large")
	errBackground = errors.New("the request asks for an answer later")
	errNoJSON     = errors.New("the request is no JSON")
	errIdle       = errors.New("nothing came for too long")
)

func tooLarge() *fault {
	return &fault{status: http.StatusRequestEntityTooLarge, kind: "request_too_large", message: "A request to the model has 64 MiB at most."}
}

// failed is why the provider gave no answer.
func (c *call) failed(ctx context.Context, err error) *fault {
	host := net.JoinHostPort(c.x.Host, strconv.Itoa(int(c.x.Port)))
	if refused, ok := errors.AsType[policy.Refusal](err); ok {
		return &fault{status: http.StatusForbidden, kind: "permission_error", rule: refused.Rule, message: "The model's provider is out of reach: " + refused.Message}
	}
	if bad, ok := errors.AsType[unreadable](err); ok {
		return &fault{status: http.StatusBadRequest, kind: "invalid_request_error", message: fmt.Sprintf("The request's body cannot be read: %v.", bad.error)}
	}
	switch {
	case errors.Is(err, errLarge):
		return tooLarge()
	case errors.Is(err, errBackground):
		return &fault{status: http.StatusBadRequest, kind: "invalid_request_error", message: "Answers in the background are not passed on, as nothing of them would be counted. Leave 'background' out of the request."}
	case errors.Is(err, errNoJSON):
		return &fault{status: http.StatusBadRequest, kind: "invalid_request_error", message: "The request's body is no JSON that can be read."}
	}
	if errors.Is(context.Cause(ctx), errIdle) || errors.Is(err, context.DeadlineExceeded) {
		return &fault{status: http.StatusGatewayTimeout, kind: "api_error", retry: true, message: fmt.Sprintf("The model's provider at %s gave no answer in time.", host)}
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &fault{status: http.StatusBadGateway, kind: "api_error", message: fmt.Sprintf("The certificate of the model's provider at %s is invalid here: %v. The operator can add its issuer with --egress-ca.", host, bad.Err)}
	}
	return &fault{status: http.StatusBadGateway, kind: "api_error", retry: true, message: fmt.Sprintf("The model's provider at %s cannot be reached: %s.", host, c.m.reason(err))}
}

// reason is an error in words for the run, without this host's addresses and
// without the key.
func (m *Proxy) reason(err error) string {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	if m.redactor == nil {
		return err.Error()
	}
	return m.redactor.Mask(err.Error())
}

// refuse answers a request that is not passed on, or in place of the provider.
func (c *call) refuse(w http.ResponseWriter, f *fault) bool {
	if f.status < 500 {
		c.x.Refused = true
	}
	if f.rule != "" {
		c.x.Rule = f.rule
	}
	c.x.Err = errors.New(f.message)
	h := w.Header()
	if !f.retry {
		h.Set(shouldRetry, "false")
	}
	if f.status == http.StatusUpgradeRequired {
		h.Set("Upgrade", "HTTP/1.1")
		h.Set("Connection", "Upgrade")
	}
	if f.status == http.StatusRequestEntityTooLarge {
		h.Set("Connection", "close")
	}
	writeJSON(w, f.status, c.m.body(f))
	return true
}

// body is an error in the provider's dialect.
func (m *Proxy) body(f *fault) any {
	type fields map[string]any
	if m.anthropic {
		return fields{"type": "error", "error": fields{"type": f.kind, "message": f.message}}
	}
	return fields{"error": fields{"message": f.message, "type": f.kind, "param": nil, "code": nil}}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b = nil // texts and nothing else are marshalled here
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that left does not need it
}

// watch ends a call when nothing comes for a time. It is for one goroutine.
type watch struct {
	timer *time.Timer
	idle  time.Duration
}

func newWatch(ctx context.Context, idle time.Duration) (context.Context, *watch, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{idle: idle, timer: time.AfterFunc(max(idle, minSilence), func() { cancel(errIdle) })}
	return ctx, w, func() { w.timer.Stop(); cancel(nil) }
}

// goesOn is to be called as something comes.
func (w *watch) goesOn() { w.timer.Reset(w.idle) }
