// Package llmproxy answers: how does a sandbox ask its model, and Stint, without
// holding a key?
//
// Both are answered in the server's process: the requests of a sandbox for
// stint.ModelAlias go on to the endpoint of its provider with the provider's
// key put in, those for stint.APIAlias to the server's own API with the run's
// token. What the sandbox sends as credentials, cookies and word of other
// proxies is dropped.
//
// # What is passed on
//
// The calls of the provider's dialects and the lists of its models, and nothing
// else: POST /v1/messages and /v1/messages/count_tokens for Anthropic, POST
// /v1/responses, /v1/responses/compact, /v1/responses/input_tokens and
// /v1/chat/completions for OpenAI, GET /v1/models and below for both. So no
// agent reads what others stored under the same key, and none uses the model
// uncounted, as batches and answers fetched later would. Anthropic's HEAD / and
// /api/hello, by which clients look whether somebody is there, are answered
// here. Requests have up to 64 MiB; answers pass as they come.
//
// # Failures
//
// Answers of the provider pass as they are, redirects excepted; those that
// refuse the key tell clients not to try again with it. Where there is none, the client gets an error in its dialect's form, whose status tells what
// to do, for clients try again after 408, 409, 429 and every 5xx, and give up
// after the others: 403 where the policy refuses the provider's address, 404
// and 405 for what is not passed on, 413 for too much, 426 for WebSockets, after
// which clients go on with plain requests. 502 says that the provider cannot be
// reached, 504 that it gave no answer in time. A redirect is 502, too, since
// the key is for one host; that and all that is final bears
// "x-should-retry: false", which the dialects' own clients heed.
//
// # What is counted
//
// Each call that was answered with success counts once, with what its answer
// told of tokens until it ended, however it ended. Where that is nothing, as in
// chat streams that were not asked for it, an estimate is counted: a token for
// each four bytes of the request and of the text that the model gave. Of an
// answer that was cut off, so much of its output counts at least. A client that
// is gone ends its call at the provider, too.
//
// What would be answered later, beyond any count, is refused: a request for
// /v1/responses with "background", and such as cannot be read for it.
package llmproxy
