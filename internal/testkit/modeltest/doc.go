// Package modeltest contains a model server for tests.
//
// A Server speaks the dialects of Anthropic Messages, OpenAI Responses, OpenAI Chat
// Completions, and Gemini on loopback. It does not store conversations, because each
// request contains the whole conversation. Directives in the user's newest message
// determine the response:
//
//	[[run: CMD]]          call the client's shell tool with the command CMD
//	[[tool: NAME {json}]] call the tool NAME, or a tool with the suffix _NAME
//	[[say: TEXT]]         the text of the final answer
//	[[think: TEXT]]       send TEXT as reasoning before the next step
//	[[sleep: SECONDS]]    send the first event of the next step, then wait
//	[[http: CODE]]        refuse the next step with the status CODE
//	[[http: CODE*N]]      refuse the next step N times, then execute it
//	[[cut]]               close the connection in the middle of the next step
//	[[slow: N]]           send the final text in N pieces
//	[[usage: in=100,out=20,cacheRead=0,cacheWrite=0,reasoning=0]]
//
// The server executes the directives in their order. Each response contains one tool
// call. The next step follows after the client has sent the result of the call. The
// last step is the final answer. Without [[say]], its text is
// "Hello. user_turns=N tools=M", or "Done. user_turns=N tool_said=…" after the result
// of a tool. If the value of a directive is invalid, the server responds with status
// 400, so that the test fails. Other text in double brackets is not a directive.
//
// If a request asks for JSON, the final answer is the text of [[say]] or a generated
// value that matches the schema. Claude Code requests JSON by declaring its tool
// StructuredOutput. In this case, the final answer is a call of that tool.
//
// The directive usage sets the numbers of tokens that each response reports. in
// includes the tokens read from and written to the cache, and out includes the
// reasoning tokens. Each dialect reports the numbers in its own format.
// Anthropic has no field for reasoning tokens, and Gemini has no field for tokens
// written to the cache.
package modeltest
