// Package transfer answers: how do a folder and a version become the same with
// as little sent as possible?
//
// Push cuts the files of a folder into chunks as the server does, asks which
// of them it lacks, sends those and then the tree that names them all. Pull
// reads a version's tree, looks at what a folder holds already and fetches the
// chunks that it lacks.
//
// Neither keeps a session: what arrived is stored, so whoever is interrupted
// asks again and goes on. A Cache remembers which chunks a file has, so that
// an unchanged file is not read again. Every chunk is checked by its hash
// where it arrives, and a file is put in its place when it is whole.
package transfer
