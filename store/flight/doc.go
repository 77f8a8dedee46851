// Package flight collapses concurrent requests for one key into one fetch.
//
// The first request to [Group.Claim] a key leads: it starts the fetch. Those
// that claim the key while the fetch is under way wait for its decision. The
// fetch decides once, as soon as it knows the response's head: shared, and
// everyone attached gets the value and reads the same body; or released, and
// only the leader gets it, while each waiter goes its own way. A released key
// can be remembered for a while, so that later requests go alone at once
// instead of queueing one behind the other.
//
// The fetch belongs to the flight, not to the leader: clients leave when they
// want. When the last one has left, the flight goes on if its response may be
// stored, or while that isn't known yet, and is cancelled otherwise.
//
// A flight's key has two parts, the primary key and the variant: a purge of
// the primary key dooms the flights of all its variants ([Group.Forget]).
package flight
