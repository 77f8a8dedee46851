// Package store keeps HTTP responses: finished ones as [Object] values in
// tiers, unfinished ones as a [Fill] that one writer fills and any number of
// readers follow.
//
// # The model
//
// An [Object] is one stored response and never changes. Its identity is a
// [Key], a 256-bit digest that the caller computes. A response without a Vary
// header field is kept under its primary key. One with Vary is kept under its
// variant key, and the primary key then leads to an [Index] that names the
// sets of selecting header fields seen, newest first; the caller makes the
// variant key for each set and asks again. Bounds: MaxVariants objects for one
// primary key, the oldest out; eight sets of names. A variant is found only as
// long as the index lives that it was stored with: one whose index was evicted
// is a miss, since a purge of the primary key wouldn't find it.
//
// A [Store] puts objects into its memory tier, which is bounded by bytes.
// Objects that no tier can take are rejected with a reason, never an error.
//
// Behind memory there may be a [SpoolTier] on disk. What is too large for memory
// is there alone; of the rest it has a copy that is written behind the request, so
// that what was evicted from memory, or is from before a restart, is found and
// comes back into memory. What is stored or deleted in one tier is gone from the
// other at once.
//
// A [Fill] keeps all of a body while that may be stored, and a window of it
// when it may not: then the slowest reader holds the writer back. The memory
// of all fills together is bounded by a [Budget]. With a disk, a body that may be
// stored and outgrows memory is spilled to a file, and readers that are behind
// read it there; [Store.Keep] makes either kind an object.
package store
