// Package hostile answers: does the service stand what its users' agents try?
//
// It holds no code but tests. They start the built program as an operator
// would, push agents as users do, and let them attack: the machine, the server,
// each other, and whoever reads what they write.
package hostile
