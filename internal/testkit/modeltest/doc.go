// Package modeltest contains a model server for tests.
//
// A Server speaks the dialects of Anthropic Messages, OpenAI Responses, OpenAI Chat
// Completions, and Gemini on loopback. It does not store conversations, because each
// request contains the whole conversation. Directives in the user's newest message
// determine the response:
//
//	[[run: CMD]]          call the client's shell tool
//	[[tool: NAME {json}]] call the tool with the name NAME or a name that ends with it
//	[[say: TEXT]]         the text of the final answer
//	[[think: TEXT]]       reason before the next step
//	[[sleep: SECONDS]]    send the first event of the next step, then wait
//	[[http: CODE]]        refuse the next step with this status
//	[[http: CODE*N]]      refuse it N times, then go on
//	[[cut]]               break off in the middle of the next step
//	[[slow: N]]           send the final text in N pieces
//	[[usage: in=100,out=20,cacheRead=0,cacheWrite=0,reasoning=0]]
//
// The server executes the directives in their order: one tool call per response, the
// next one after its result, and the final answer at the end. Without a directive,
// the answer is "Hello. user_turns=N tools=M", or "Done. user_turns=N tool_said=…"
// after the result of a tool. An invalid directive is refused with status 400, so
// that a test with a misspelt directive fails.
//
// If a request asks for JSON, the final answer is the text of [[say]] or a generated
// value for the schema. If Claude Code declares its tool StructuredOutput, which
// requests JSON, the final answer is a call of that tool.
//
// In usage, in includes the tokens read from and written to the cache, and out
// includes the reasoning tokens. Each dialect reports them in its own format.
// Anthropic has no field for reasoning tokens, and Gemini has none for tokens written
// to a cache.
package modeltest
