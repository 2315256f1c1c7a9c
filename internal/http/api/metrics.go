package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stint-dev/stint/internal/auth"
)

// metrics contains the metrics of the API. The label route is the pattern of a route,
// not the path of a request.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	streams  prometheus.Gauge
}

func newMetrics(registry *prometheus.Registry) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stint_http_requests_total", Help: "Responses by route and status.",
		}, []string{"method", "route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stint_http_request_duration_seconds", Help: "Time from a request to the end of its response, without event streams.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60},
		}, []string{"method", "route"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "stint_http_open_streams", Help: "Open event streams.",
		}),
	}
	if registry != nil {
		registry.MustRegister(m.requests, m.duration, m.streams)
	}
	return m
}

func (m *metrics) observe(method, route string, status int, took time.Duration) {
	method = knownMethod(method)
	if status == 0 {
		status = http.StatusOK // the handler wrote nothing
	}
	m.requests.WithLabelValues(method, route, strconv.Itoa(status)).Inc()
	if route != routeEvents {
		m.duration.WithLabelValues(method, route).Observe(took.Seconds())
	}
}

// knownMethod returns the label of an HTTP method. All unknown methods have the label
// "other", because clients could otherwise create any number of labels.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions:
		return m
	}
	return "other"
}

// serveMetrics responds with the metrics in the Prometheus text format. Only an operator
// receives those of organisations.
func (a *api) serveMetrics(w http.ResponseWriter, r *http.Request, _ *auth.Caller) error {
	if a.c.Registry == nil {
		return errUnknownPath
	}
	metrics := prometheus.Gatherers{a.c.Registry}
	if a.c.OrgMetrics != nil && a.isOperator(r) {
		metrics = append(metrics, a.c.OrgMetrics)
	}
	promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return nil
}

// isOperator reports whether the request has the token of an operator. The route needs no
// token, so a request with an invalid one is like a request without.
func (a *api) isOperator(r *http.Request) bool {
	c, err := a.authenticate(r, false)
	if err != nil {
		return false
	}
	operator, err := a.c.Auth.IsOperator(r.Context(), c)
	if err != nil {
		a.c.Log.Error("check for an operator", "error", err)
	}
	return operator
}
