// Package modeltest answers: what does an agent hear when no model is there?
//
// A Server speaks the dialects of Anthropic Messages, OpenAI Responses,
// OpenAI Chat Completions and Gemini on loopback. It keeps no conversation:
// each request carries its own, and what is answered follows from directives
// in the newest message of the user.
//
//	[[run: CMD]]          call the client's shell tool
//	[[tool: NAME {json}]] call the tool whose name is NAME or ends with it
//	[[say: TEXT]]         the text of the final answer
//	[[think: TEXT]]       reason before the next step
//	[[sleep: SECONDS]]    send the first event of the next step, then wait
//	[[http: CODE]]        refuse the next step with this status
//	[[http: CODE*N]]      refuse it N times, then go on
//	[[cut]]               break off in the middle of the next step
//	[[slow: N]]           send the final text in N pieces
//	[[usage: in=100,out=20,cacheRead=0,cacheWrite=0,reasoning=0]]
//
// Steps are worked in the order in which they stand: a call per answer, the
// next one after its result, the final answer at the end. Without a directive
// the answer is "Hello. user_turns=N tools=M", after a tool's result
// "Done. user_turns=N tool_said=…". A directive that makes no sense is
// refused with status 400, for a test that misspells one shall fail.
//
// Where a request asks for JSON, the final answer is what [[say]] gives, or a
// value made for the schema; where Claude Code asks for it by a tool of its
// own, StructuredOutput, that is called with it.
//
// In a usage, in counts what came from and went to the cache and out counts
// what was reasoned; each dialect reports it as its own convention demands.
// Anthropic has no field for reasoning, Gemini none for what went to a cache.
package modeltest
