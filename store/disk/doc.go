// Package disk keeps objects in files: a [store.Tier] that survives restarts,
// for bodies that are too large for memory and for what memory has no room for.
//
// # The model
//
// There is one file for each object, named by the object's key and by nothing
// else. It is written under a temporary name and renamed, so that a reader
// sees all of it or nothing. It holds two heads of which the newer counts, the
// body in one piece, a table with a checksum for each block of 128 KiB, and the
// encoded fields; each part is covered by a checksum. A file that isn't whole
// is deleted and was never there.
//
// For primary keys whose responses vary there is one more file, the record
// that names the variants. Record and variants carry the number of their
// lineage; a variant whose lineage isn't its record's is never found.
//
// Memory has an index of all files, about 150 bytes for each, that says what to
// evict: a segmented LRU by bytes and by number, without those being sent, and with
// the bytes of those deleted while they are sent. [Open] returns at once; the
// index is rebuilt from the files in the background, and until that is done a
// key that isn't in the index is looked up by its file's name.
//
// An object that Get returns has no Body but a Content. Opening it and copying
// its sections to a client is a sendfile. Blocks are checked before the first
// byte of them is sent since the file was opened; a bounded number of files
// stays open for this. See docs/decisions/disk-verification.md.
//
// # Faults
//
// When the disk is full, or the directory can't be written to, the tier takes
// nothing for a while, growing from a second to a minute; when reading fails,
// it finds nothing either. One line in the log tells of it, and Stats counts
// it. It recovers by itself. A single file that can't be read, replaced or deleted
// is a miss, and nothing more; several within a minute are the disk's fault.
//
// What can't be deleted isn't found any more. It's deleted once the disk can be
// written to again.
//
// A directory that disappears is made anew. If it has become another process's
// meanwhile, all in it is left alone until that process ends.
package disk
