// Package lb sends requests to origins: which ones, in which order, and whether
// they are well.
package lb
