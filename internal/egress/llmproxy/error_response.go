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

// shouldRetry is the header that the providers' clients read to decide whether to
// retry.
const shouldRetry = "X-Should-Retry"

// errorResponse is an error response that the proxy itself generates.
type errorResponse struct {
	status  int
	kind    string // type of the error in the providers' APIs
	message string
	rule    string // rule that refused the request; empty for RuleProvider
	retry   bool   // another attempt may succeed
}

var errIdle = errors.New("the provider sent no bytes for too long")

func tooLarge() *errorResponse {
	return &errorResponse{status: http.StatusRequestEntityTooLarge, kind: "request_too_large", message: "A request to the model may have 64 MiB."}
}

// failure returns the response to a request that failed with err.
func (c *modelCall) failure(ctx context.Context, err error) *errorResponse {
	host := net.JoinHostPort(c.x.Host, strconv.Itoa(int(c.x.Port)))
	if refused, ok := errors.AsType[policy.Refusal](err); ok {
		return &errorResponse{status: http.StatusForbidden, kind: "permission_error", rule: refused.Rule, message: "The model's provider cannot be reached: " + refused.Message}
	}
	if bad, ok := errors.AsType[bodyError](err); ok {
		return &errorResponse{status: http.StatusBadRequest, kind: "invalid_request_error", message: fmt.Sprintf("The request's body cannot be read: %v.", bad.error)}
	}
	switch {
	case errors.Is(err, errTooLarge):
		return tooLarge()
	case errors.Is(err, errBackground):
		return &errorResponse{status: http.StatusBadRequest, kind: "invalid_request_error", message: "Responses in the background are not supported, because they cannot be counted. Omit 'background' from the request."}
	case errors.Is(err, errNotJSON):
		return &errorResponse{status: http.StatusBadRequest, kind: "invalid_request_error", message: "The request's body is not valid JSON."}
	case errors.Is(err, errMemory):
		return &errorResponse{status: http.StatusTooManyRequests, kind: "rate_limit_error", retry: true, message: "The requests of this run in progress exceed 128 MiB. Send fewer at once."}
	}
	if errors.Is(context.Cause(ctx), errIdle) || errors.Is(err, context.DeadlineExceeded) {
		return &errorResponse{status: http.StatusGatewayTimeout, kind: "api_error", retry: true, message: fmt.Sprintf("The model's provider at %s did not respond in time.", host)}
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &errorResponse{status: http.StatusBadGateway, kind: "api_error", message: fmt.Sprintf("The certificate of the model's provider at %s is invalid: %v. The operator can add its issuer with --egress-ca.", host, bad.Err)}
	}
	return &errorResponse{status: http.StatusBadGateway, kind: "api_error", retry: true, message: fmt.Sprintf("The model's provider at %s cannot be reached: %s.", host, c.p.reason(err))}
}

// reason returns the text of an error for the run, without addresses of this host and
// without the key.
func (p *Proxy) reason(err error) string {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	if p.redactor == nil {
		return err.Error()
	}
	return p.redactor.Mask(err.Error())
}

// refuse writes an error response and records it in the exchange. It always returns
// true, because the response is complete.
func (c *modelCall) refuse(w http.ResponseWriter, f *errorResponse) bool {
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
	writeJSON(w, f.status, c.p.errorBody(f))
	return true
}

// errorBody returns the body of an error response in the format of the provider's API.
func (p *Proxy) errorBody(f *errorResponse) any {
	type fields map[string]any
	if p.anthropic {
		return fields{"type": "error", "error": fields{"type": f.kind, "message": f.message}}
	}
	return fields{"error": fields{"message": f.message, "type": f.kind, "param": nil, "code": nil}}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b = nil // cannot happen, because all values can be marshalled
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client may have closed the connection
}

// idleWatch cancels a call with errIdle if the provider sends no bytes for the duration
// idle. Before the response begins, the duration is at least minSilence. An idleWatch is
// used by one goroutine.
type idleWatch struct {
	timer *time.Timer
	idle  time.Duration
}

func newIdleWatch(ctx context.Context, idle time.Duration) (context.Context, *idleWatch, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &idleWatch{idle: idle, timer: time.AfterFunc(max(idle, minSilence), func() { cancel(errIdle) })}
	return ctx, w, func() { w.timer.Stop(); cancel(nil) }
}

// reset restarts the timer. It is called when bytes arrive.
func (w *idleWatch) reset() { w.timer.Reset(w.idle) }
