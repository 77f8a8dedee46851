// Package purge says which stored responses no longer count.
//
// # The model
//
// A [List] counts. A fetch takes the current number ([List.Now]) at the instant its
// request is sent, and the stored response keeps it. A purge gets the next number
// and is remembered as a tombstone: a [Selector] and that number. A response that
// the selector matches is invalid if its number is lower. So a fetch that is in
// flight during a purge doesn't survive it, one that begins afterwards does, and no
// clock has a say in it.
//
// Nothing that is stored is walked when something is purged. A response is checked
// when it is about to be used ([List.Check], on a [Subject] kept with it), by a few
// look-ups whose number doesn't depend on how many purges there were, and it
// remembers up to which number it was checked: while nothing is purged, a check is a
// comparison. Checks take no lock.
//
// A hard purge makes a response [Gone], a soft one [Stale] at once. Of several, the
// hard ones count for what they match, whatever came later.
//
// # What is forgotten
//
// A list remembers 4,096 purges one by one, identical ones as one. When there are
// more, the oldest quarter is folded into floors: everything in their zones that
// was fetched before the newest of them is invalid. More may become invalid than
// was asked for, but nothing purged ever comes back, and what was fetched after
// those purges stays.
//
// # What visitors may cause
//
// Unsafe requests invalidate what is stored for their URL, and the groups that they are
// answered with (RFC 9875), and anybody may send them. [List.Invalidate] purges for
// them. It remembers by 64-bit digests, has room of its own, 8 MiB at most for URLs and
// as much for groups, and never folds another purge.
//
// # Restarts
//
// If what is stored outlives the process, purges must too. A list with a journal
// writes each purge to a file before Add returns; concurrent purges share the
// wait. A number holds the process's generation in its upper 32 bits and counts in
// the lower 32. Each generation is durable before it is used, so numbers of a later
// process are higher than all earlier ones.
//
// A record that a crash left unfinished at the end of the file is cut off: nobody
// was told that it is durable. Any other damage, a file that is missing, or one that
// doesn't come as far as the file beside it says (a backup that was put back, or a part
// of a file), means that purges may be lost; all that was stored before is invalid then.
// If both files were put back, what is stored may show it: see [List.Witness]. If the disk fails
// while the process runs, purges stay in effect, callers are told
// ([ErrNotDurable]), the file is marked so that the next process wouldn't trust it,
// and it is replaced as soon as the disk allows.
//
// # Tags
//
// A [TagReader] finds a response's tags in the header fields that it is told about,
// and its groups in Cache-Groups (RFC 9875), which belong to an origin and are never
// mixed up with tags. A response with more than 1,000 of them, or 16 KiB of text,
// keeps none; every purge of any tag in its zone purges it.
//
// # Budgets and HTTP
//
// [List.Add] always purges at once. [List.Submit] keeps to a budget for each zone,
// queues what is beyond and drains the queue at the budget's rate. A [Handler] offers
// that over HTTP, as a JSON interface and for the PURGE method, to those whom an
// authoriser knows, and writes an audit log.
package purge
