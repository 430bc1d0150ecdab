//go:build !unix

package pages

func mapPages(n int) ([]byte, error) { return make([]byte, n), nil }

func unmapPages([]byte) error { return nil }

func large([]byte) {}

func discard([]byte) {}

func populate([]byte) bool { return false }
