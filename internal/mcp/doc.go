// Package mcp answers: what can a program do here that speaks the Model
// Context Protocol?
//
// The tools are written once, over the client of the API. A desktop program
// starts them as a process on standard input and output; agents and programs
// elsewhere reach them as POST /mcp, where the client's requests go to the API's
// own handler, in process and with the caller's token. So what is allowed, what
// is refused and how is decided in one position for all.
package mcp
