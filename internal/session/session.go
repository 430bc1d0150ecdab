// Package session gives packages of this module the files of an engine.Session, which does not export
// them: operations outside of package engine, such as device links, open inputs and write transactions
// of outputs in the same root.
package session

import "github.com/rules-offload/rules_offload/internal/files"

// Files returns the files of an *engine.Session. Package engine sets it.
var Files func(session any) *files.Root
