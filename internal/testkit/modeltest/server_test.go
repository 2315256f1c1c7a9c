package modeltest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/testkit/modeltest"
)

// each runs a parallel subtest for every dialect. Each subtest has a new server.
func each(t *testing.T, o modeltest.Options, test func(t *testing.T, s *modeltest.Server, dialect string)) {
	t.Helper()
	t.Parallel()
	for _, dialect := range allDialects {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			test(t, modeltest.StartWith(t, o), dialect)
		})
	}
}

func TestSlowText(t *testing.T) {
	each(t, modeltest.Options{}, func(t *testing.T, s *modeltest.Server, dialect string) {
		_, stream := ask(t, s.URL, dialect, true, turn{user: "[[slow: 4]] [[say: für alle]]"})
		if diff := cmp.Diff([]string{"fü", "r ", "al", "le"}, pieces(t, dialect, stream)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestDirectivesInOrder(t *testing.T) {
	each(t, modeltest.Options{}, func(t *testing.T, s *modeltest.Server, dialect string) {
		turns := []turn{{user: "before"}, {user: "[[run: first]] [[run: second]] [[http: 418]] [[tool: run_agent]]"}}
		for i, want := range []string{"first", "second", "418"} {
			code, answer := ask(t, s.URL, dialect, false, turns...)
			if !strings.Contains(answer, want) || (code == 418) != (i == 2) {
				t.Errorf("step %d: %d %s", i, code, answer)
			}
			turns = append(turns, turn{tool: "done"})
		}
		if _, answer := ask(t, s.URL, dialect, false, turns...); !strings.Contains(answer, "Done. user_turns=2 tool_said=") {
			t.Errorf("at the end: %s", answer)
		}
	})
}

func TestLimitedRefusals(t *testing.T) {
	each(t, modeltest.Options{}, func(t *testing.T, s *modeltest.Server, dialect string) {
		var codes []int
		for _, prompt := range []string{"a", "a", "a", "b"} {
			code, _ := ask(t, s.URL, dialect, true, turn{user: "[[http: 529*2]] " + prompt})
			codes = append(codes, code)
		}
		if diff := cmp.Diff([]int{529, 529, 200, 529}, codes); diff != "" {
			t.Error(diff)
		}
	})
}

func TestInvalidDirectivesAreRefused(t *testing.T) {
	each(t, modeltest.Options{}, func(t *testing.T, s *modeltest.Server, dialect string) {
		code, answer := ask(t, s.URL, dialect, true, turn{user: "[[sleep: soon]]"})
		if code != http.StatusBadRequest || !strings.Contains(answer, "soon") {
			t.Errorf("%d %s", code, answer)
		}
	})
}

func TestUnknownTool(t *testing.T) {
	each(t, modeltest.Options{}, func(t *testing.T, s *modeltest.Server, dialect string) {
		_, answer := ask(t, s.URL, dialect, false, turn{user: "[[tool: fly]]"})
		if !strings.Contains(answer, "I cannot: the tool fly is not declared; declared: [") {
			t.Error(answer)
		}
	})
}

func TestAcceptedKeyAndModel(t *testing.T) {
	each(t, modeltest.Options{Key: "a-key", Models: []string{"m"}}, func(t *testing.T, s *modeltest.Server, dialect string) {
		if code, answer := ask(t, s.URL, dialect, true, turn{user: "hello"}); code != http.StatusOK {
			t.Errorf("%d %s", code, answer)
		}
	})
}

func TestOtherKeysAreRefused(t *testing.T) {
	each(t, modeltest.Options{Key: "another"}, func(t *testing.T, s *modeltest.Server, dialect string) {
		if code, answer := ask(t, s.URL, dialect, true, turn{user: "[[http: 500]]"}); code != http.StatusUnauthorized {
			t.Errorf("%d %s", code, answer)
		}
	})
}

func TestOtherModelsAreRefused(t *testing.T) {
	each(t, modeltest.Options{Models: []string{"another"}}, func(t *testing.T, s *modeltest.Server, dialect string) {
		if code, answer := ask(t, s.URL, dialect, true, turn{user: "hello"}); code != http.StatusNotFound {
			t.Errorf("%d %s", code, answer)
		}
	})
}

func TestCut(t *testing.T) {
	each(t, modeltest.Options{}, func(t *testing.T, s *modeltest.Server, dialect string) {
		for _, stream := range []bool{true, false} {
			response := post(t, s.URL, dialect, stream, turn{user: "[[cut]]"})
			data, err := io.ReadAll(response.Body)
			if !errors.Is(err, io.ErrUnexpectedEOF) || len(data) == 0 {
				t.Errorf("stream %t: %d bytes, %v", stream, len(data), err)
			}
		}
	})
}

func TestSleepEndsWhenTheClientLeaves(t *testing.T) {
	each(t, modeltest.Options{}, func(t *testing.T, s *modeltest.Server, dialect string) {
		response := post(t, s.URL, dialect, true, turn{user: "[[sleep: 600]]"})
		if _, err := bufio.NewReader(response.Body).ReadString('\n'); err != nil {
			t.Errorf("reading the first event: %v", err)
		}
		response.Body.Close() // at the end of the test, Server.Close waits until the answer has ended
	})
}

func TestSleepEndsWhenTheServerCloses(t *testing.T) {
	each(t, modeltest.Options{}, func(t *testing.T, s *modeltest.Server, dialect string) {
		response := post(t, s.URL, dialect, true, turn{user: "[[sleep: 600]]"})
		s.Close()
		if _, err := io.ReadAll(response.Body); err == nil {
			t.Error("the stream ended without an error")
		}
	})
}

func TestRequestsAreStored(t *testing.T) {
	each(t, modeltest.Options{}, func(t *testing.T, s *modeltest.Server, dialect string) {
		ask(t, s.URL, dialect, true, turn{user: "one"}, turn{user: "[[run: x]]"}, turn{tool: "two"})
		got := s.Requests()[0]
		path, text := body(t, dialect, true, []turn{{user: "one"}, {user: "[[run: x]]"}, {tool: "two"}})
		path, _, _ = strings.Cut(path, "?")
		want := modeltest.Request{Dialect: dialect, Path: path, Model: "m", Key: "a-key", UserTurns: 2, Users: []string{"one", "[[run: x]]"}, Body: []byte(text)}
		want.Header, want.At, want.Tools = got.Header, got.At, got.Tools
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if len(got.Tools) != 2 || !strings.HasSuffix(got.Tools[1], "stint_run_agent") && got.Tools[1] != "mcp__stint__run_agent" {
			t.Errorf("tools %q", got.Tools)
		}
		if got.Header.Get("Authorization") != "Bearer a-key" || got.At.IsZero() {
			t.Errorf("header %v at %v", got.Header, got.At)
		}
	})
}

func TestStructuredAnswers(t *testing.T) {
	t.Parallel()
	s := modeltest.Start(t)
	const form = `{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}`
	for _, c := range []struct{ name, path, body, want string }{
		{"responses", "/v1/responses", `{"input":"hello","text":{"format":{"type":"json_schema","schema":` + form + `}}}`, `"text":"{\"a\":1}"`},
		{"chat", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hello"}],"response_format":{"type":"json_schema","json_schema":{"schema":` + form + `}}}`, `"content":"{\"a\":1}"`},
		{"gemini", "/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"text":"hello"}]}],"generationConfig":{"responseMimeType":"application/json","responseSchema":` + form + `}}`, `"text":"{\"a\":1}"`},
		{"said", "/v1/responses", `{"input":"[[say: no]]","text":{"format":{"type":"json_schema","schema":` + form + `}}}`, `"text":"no"`},
		{"claude", "/v1/messages", `{"messages":[{"role":"user","content":"hello"}],"tools":[{"name":"StructuredOutput","input_schema":` + form + `}]}`, `"input":{"a":1}`},
		{"claude says", "/v1/messages", `{"messages":[{"role":"user","content":"[[say: {\"a\":2}]]"}],"tools":[{"name":"StructuredOutput","input_schema":` + form + `}]}`, `"input":{"a":2}`},
		{"claude says no", "/v1/messages", `{"messages":[{"role":"user","content":"[[say: no]]"}],"tools":[{"name":"StructuredOutput","input_schema":` + form + `}]}`, `"text":"no"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if code, answer := send(t, http.MethodPost, s.URL+c.path, c.body); code != http.StatusOK || !strings.Contains(answer, c.want) {
				t.Errorf("%d %s", code, answer)
			}
		})
	}
}

func TestShells(t *testing.T) {
	t.Parallel()
	s := modeltest.Start(t)
	for tool, want := range map[string]string{
		`{"name":"run_commands","input_schema":{"properties":{"commands":{"type":"array"}}}}`:                        `"input":{"commands":["ls"]}`,
		`{"name":"shell","input_schema":{"properties":{"command":{"type":"array"}}}}`:                                `"input":{"command":["bash","-lc","ls"]}`,
		`{"name":"Bash","input_schema":{"required":["n"],"properties":{"n":{"type":"integer"},"command":{}}}}`:       `"input":{"command":"ls","n":1}`,
		`{"name":"shell","input_schema":{"properties":{}}},{"name":"bash","input_schema":{"properties":{"cmd":{}}}}`: `"name":"bash"`,
		`{"name":"draw"}`: `I cannot: [draw] do not include a shell tool`,
	} {
		body := `{"messages":[{"role":"user","content":"[[run: ls]]"}],"tools":[` + tool + `]}`
		if _, answer := send(t, http.MethodPost, s.URL+"/v1/messages", body); !strings.Contains(answer, want) {
			t.Errorf("for %s: %s", tool, answer)
		}
	}
}

func TestStrayRequests(t *testing.T) {
	t.Parallel()
	s := modeltest.Start(t)
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{http.MethodHead, "/", "", 200},
		{http.MethodGet, "/api/hello", "", 200},
		{http.MethodHead, "/api/hello", "", 200},
		{http.MethodPost, "/v1/messages/count_tokens", "{}", 200},
		{http.MethodGet, "/v1/responses", "", 404},
		{http.MethodPost, "/v1/telemetry", "{}", 404},
		{http.MethodPost, "/v1/messages", "nonsense", 400},
		{http.MethodPost, "/v1/responses", "[]", 400},
		{http.MethodPost, "/v1/chat/completions", `{"messages":1}`, 400},
		{http.MethodPost, "/v1beta/models/m:generateContent", "", 400},
		{http.MethodPost, "/v1/messages", `"` + strings.Repeat("x", 32<<20-1) + `"`, 413}, // one byte above the limit: a larger unread rest may reset the connection
	} {
		if code, answer := send(t, c.method, s.URL+c.path, c.body); code != c.want {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, code, answer, c.want)
		}
	}
	if diff := cmp.Diff([]string{"GET /v1/responses", "POST /v1/telemetry"}, s.Strays()); diff != "" {
		t.Error(diff)
	}
}

func send(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	s := modeltest.Start(t)
	found := make(chan modeltest.Request, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		r, err := s.WaitFor(t.Context(), func(r modeltest.Request) bool { return slices.Contains(r.Users, "third") })
		if err != nil {
			t.Error(err)
		}
		found <- r
	})
	for _, prompt := range []string{"first", "second", "third"} {
		wg.Go(func() { ask(t, s.URL, modeltest.Chat, true, turn{user: prompt}) })
	}
	if err := s.Wait(t.Context(), 3); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if r := <-found; r.Users[0] != "third" {
		t.Errorf("found %q", r.Users)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ended, 4); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a request that does not arrive: %v", err)
	}
	if _, err := s.WaitFor(ended, func(modeltest.Request) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a request that does not arrive: %v", err)
	}
}

// TestConcurrentRequests checks that the server counts concurrent requests correctly. The
// race detector can find data races in it.
func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	s := modeltest.Start(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 8 {
				want := fmt.Sprintf("answer %d of %d", j, i)
				stream := j%2 == 0
				_, answer := ask(t, s.URL, allDialects[(i+j)%4], stream, turn{user: "[[http: 500*1]][[say: " + want + "]]"})
				_, again := ask(t, s.URL, allDialects[(i+j)%4], stream, turn{user: "[[http: 500*1]][[say: " + want + "]]"})
				if strings.Contains(answer, want) || !strings.Contains(again, want) {
					t.Errorf("%s: first %s, then %s", want, answer, again)
				}
				s.Requests()
			}
		})
	}
	wg.Wait()
	if got := len(s.Requests()); got != 128 {
		t.Errorf("%d requests are stored", got)
	}
}
