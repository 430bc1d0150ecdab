package offload

import (
	"path"
	"slices"
	"strings"

	"github.com/bazelbuild/bazel-gazelle/rule"
	"github.com/bazelbuild/buildtools/build"
	"github.com/bmatcuk/doublestar/v4"
)

// patterns are the files that an attribute names, as literals or as patterns of glob.
type patterns struct {
	names    []string
	globs    []string
	excludes []string
}

// patternsOf returns all names in an expression of lists, globs, select and their sums.
func patternsOf(e build.Expr) patterns {
	var p patterns
	p.add(e)
	return p
}

func (p *patterns) add(e build.Expr) {
	switch e := e.(type) {
	case *build.StringExpr:
		p.names = append(p.names, strings.TrimPrefix(e.Value, ":"))
	case *build.ListExpr:
		for _, x := range e.List {
			p.add(x)
		}
	case *build.BinaryExpr:
		p.add(e.X)
		p.add(e.Y)
	case *build.ParenExpr:
		p.add(e.X)
	case *build.DictExpr:
		for _, kv := range e.List {
			p.add(kv.Value)
		}
	case *build.CallExpr:
		if glob, ok := rule.ParseGlobExpr(e); ok {
			p.globs = append(p.globs, glob.Patterns...)
			p.excludes = append(p.excludes, glob.Excludes...)
		} else if called, ok := e.X.(*build.Ident); ok && called.Name == "select" && len(e.List) > 0 {
			p.add(e.List[0])
		}
	}
}

// match reports whether a file, by its path in the package, is named.
func (p patterns) match(file string) bool {
	return slices.Contains(p.names, file) || matchAny(p.globs, file) && !matchAny(p.excludes, file)
}

func matchAny(globs []string, file string) bool {
	for _, glob := range globs {
		if ok, err := doublestar.Match(glob, file); ok && err == nil {
			return true
		}
	}
	return false
}

// under returns the patterns for paths in the repository.
func (p patterns) under(rel string) patterns {
	join := func(names []string) []string {
		var joined []string
		for _, name := range names {
			joined = append(joined, path.Join(rel, name))
		}
		return joined
	}
	return patterns{names: join(p.names), globs: join(p.globs), excludes: join(p.excludes)}
}

// literals returns the strings of an attribute that is a plain list of
// strings, which can be merged. ok is false for any other expression.
func literals(e build.Expr) (values []string, ok bool) {
	list, ok := e.(*build.ListExpr)
	if !ok {
		return nil, false
	}
	for _, x := range list.List {
		s, ok := x.(*build.StringExpr)
		if !ok {
			return nil, false
		}
		values = append(values, s.Value)
	}
	return values, true
}

// unchanged is an expression that a merge does not change.
type unchanged struct{ expr build.Expr }

var _ rule.Merger = unchanged{}

// BzlExpr returns the expression.
func (u unchanged) BzlExpr() build.Expr { return u.expr }

// Merge returns the existing expression.
func (u unchanged) Merge(other build.Expr) build.Expr { return other }

// setManaged sets an attribute of a generated rule to values. old is the rule to merge with, or
// nil. Its attribute is kept unless it is a plain list.
func setManaged(r, old *rule.Rule, attr string, values []string) {
	if old != nil {
		if e := old.Attr(attr); e != nil {
			if _, ok := literals(e); !ok {
				r.SetAttr(attr, unchanged{e})
				return
			}
		}
	}
	if len(values) > 0 {
		r.SetAttr(attr, values)
	}
}
