// Package testnet holds what weir's tests share: a network in memory, origins
// that do as they are told, and a check for goroutines left behind. Only tests
// import it.
//
// [PipeListener] and [Serve] replace TCP inside a bubble of testing/synctest,
// where real sockets would keep the clock from advancing. An [Origin] answers
// by script, one [Script] a request, and each step of a script can wait at a
// [Gate], so that a test decides the order of events instead of guessing it
// with sleeps. [RawServer] is for responses that net/http refuses to write.
// [CheckLeaks] fails a test that leaves goroutines running.
package testnet
