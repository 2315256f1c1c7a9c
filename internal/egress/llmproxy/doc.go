// Package llmproxy forwards a sandbox's requests to its model and to Stint's
// API, so that the sandbox needs neither the provider's key nor the run's token.
//
// Requests for stint.ModelAlias are forwarded to the provider with the provider's
// key; requests for stint.APIAlias are passed to the server's own API with the
// run's token. Credentials, cookies, and information about other proxies that the
// sandbox sends are removed.
//
// # Paths
//
// Only calls of the provider's model and requests for the list of its models are
// forwarded: POST /v1/messages and /v1/messages/count_tokens for Anthropic, POST
// /v1/responses, /v1/responses/compact, /v1/responses/input_tokens, and
// /v1/chat/completions for OpenAI, and GET and HEAD of /v1/models and paths below it for
// both. Therefore an agent cannot read data that others stored with the same key, and
// cannot use the model without being counted, for example by batches. For Anthropic, GET
// and HEAD of / and all requests for /api/hello, with which its clients check for a
// server, are answered here. A request may have 64 MiB, and all requests of a run in
// progress together 128 MiB. Responses are streamed.
//
// # Errors
//
// Error responses of the provider are forwarded, except redirects. If the
// provider rejects the key, a header is added that stops clients from retrying. If the
// proxy refuses a request or receives no response, the client receives an error in the
// format of the provider. Clients retry after 408, 409, 429, and 5xx, so the status is
// chosen accordingly: 400 for requests with an unreadable body and for responses in the
// background, 403 if the policy refuses the provider's address or the key cannot be sent,
// 404 and 405 for other paths and methods, 413 and 429 for large requests, 415 for
// compressed requests to /v1/responses, 426 for WebSockets, 502 if the provider
// cannot be reached, and 504 if it does not respond in time. If the provider sends a
// redirect, the status is 502, because the key is for one host only. Errors after
// which clients must not retry have the header "x-should-retry: false", which the
// providers' clients respect.
//
// # Counting
//
// Each successful call is counted once, with the usage in its response, even if the
// response is interrupted. If the response contains no usage, the tokens are
// estimated: one token for four bytes of the request and of the generated text. For
// an interrupted response this estimate is the minimum of the output tokens. If the
// client closes its connection, the call to the provider ends as well.
//
// A response that is generated in the background would not be counted. Therefore a
// request to /v1/responses is refused if its body is compressed, is not a JSON object, or
// has a member "background" that is neither false nor null.
package llmproxy
