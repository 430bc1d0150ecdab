// Package longzstd is a zstd encoder (RFC 8878) for bundles of GPU code objects:
// large inputs whose parts, one per architecture, say almost the same again and
// again, megabytes apart and with small changes everywhere.
package longzstd
