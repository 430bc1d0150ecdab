package offload

import (
	"path"
	"slices"
	"strings"

	"github.com/bazelbuild/bazel-gazelle/label"
	"github.com/bazelbuild/bazel-gazelle/rule"
)

// writeShared adds the targets for the headers and sources of the package that rules of other
// packages need and no target has.
func (g *generator) writeShared() {
	s := g.plan.shared[g.Rel]
	if s == nil || g.File == nil && g.settings.updateOnly {
		return
	}
	g.writeSources(s.sources)
	var headers []string
	for _, file := range s.headers {
		inRule := slices.ContainsFunc(g.groups, func(gr *group) bool {
			return g.keepsHeaders(gr) && slices.Contains(slices.Concat(gr.hdrs, gr.textual), g.name(file))
		})
		if !g.plan.isProvided(file) && !inRule {
			headers = append(headers, file)
		}
	}
	if len(headers) > 0 {
		g.writeHeaders(headers, s.includes)
	}
}

// writeHeaders adds headers to the library for them, which is a rule of C++.
func (g *generator) writeHeaders(headers, dirs []string) {
	hdrs, textual := []string{}, []string{}
	for _, file := range headers {
		if name := g.name(file); isHeader(name) {
			hdrs = append(hdrs, name)
		} else {
			textual = append(textual, name)
		}
	}
	var includes []string
	for _, dir := range dirs {
		includes = append(includes, relative(g.Rel, dir))
	}
	r := g.existingShared()
	isNew := r == nil
	if isNew {
		name := path.Base(g.Rel)
		if g.Rel == "" {
			name = "headers"
		}
		r = rule.NewRule(headersKind, g.free(headersKind, name, "_headers"))
		r.AddComment(sharedComment)
	}
	for attr, values := range map[string][]string{hdrsAttr: hdrs, textualAttr: textual, includesAttr: includes} {
		old, _ := literals(r.Attr(attr))
		values = union(slices.Clone(old), values)
		slices.Sort(values)
		if len(values) > len(old) {
			r.SetAttr(attr, values)
		}
	}
	to := label.New(g.Config.RepoName, g.Rel, r.Name())
	for _, file := range headers {
		g.sharedHeaders[file] = to
	}
	if isNew {
		g.publish(r)
	}
}

// sharedComment marks the libraries with headers for rules of other packages.
const sharedComment = "# Headers for rules of other packages. Gazelle adds those that these include."

// isShared reports whether writeHeaders wrote a rule.
func isShared(r *rule.Rule) bool {
	return r.Kind() == headersKind && slices.Contains(r.Comments(), sharedComment)
}

// existingShared returns the rule of the BUILD file that gets further headers, or nil.
func (g *generator) existingShared() *rule.Rule {
	for _, r := range g.existing() {
		if isShared(r) && !r.ShouldKeep() {
			return r
		}
	}
	return nil
}

// writeSources adds a target for each source that a rule of another package compiles.
func (g *generator) writeSources(sources []string) {
	for _, src := range sources {
		name := sourceTarget(g.Rel, src)
		if g.taken[name] {
			continue
		}
		r := rule.NewRule(sourcesKind, name)
		r.SetAttr(srcsAttr, []string{g.name(src)})
		g.publish(r)
	}
}

// publish adds a rule that needs no dependencies.
func (g *generator) publish(r *rule.Rule) {
	g.taken[r.Name()] = true
	r.SetAttr(visibilityAttr, []string{rule.CheckInternalVisibility(g.Rel, "//visibility:public")})
	g.result.Gen = append(g.result.Gen, r)
	g.result.Imports = append(g.result.Imports, nil)
	g.report.written(g.Rel, r.Kind(), r.Name())
}

// sourceTarget returns the name of the target for a source of a package.
func sourceTarget(pkg, src string) string {
	name, _ := pathIn(pkg, src)
	return strings.NewReplacer(".", "_", "/", "_").Replace(name) + "_source"
}

// sourceOf returns the source that a label of a target for sources stands for.
func (p *plan) sourceOf(name string) (file string, ok bool) {
	if !strings.HasPrefix(name, "//") {
		return "", false
	}
	l, err := label.Parse(name)
	if err != nil {
		return "", false
	}
	if s := p.shared[l.Pkg]; s != nil {
		for _, src := range s.sources {
			if sourceTarget(l.Pkg, src) == l.Name {
				return src, true
			}
		}
	}
	return "", false
}
