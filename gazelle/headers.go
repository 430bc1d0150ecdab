package offload

import "slices"

// wanted is an include that a dependency must provide.
type wanted struct {
	include
	found location // zero if no directory of the search path has it
}

// headers follows the includes of the sources of a group through the headers of the repository
// that no library has, and sets hdrs, textual, includes, local and elsewhere.
func (g *generator) headers(gr *group) {
	dirs := union(slices.Clone(g.settings.includes), gr.flags.includes)
	seen := make(map[string]bool)
	var queue []string
	for _, src := range gr.srcs {
		queue = append(queue, g.fileOf(src))
	}
	for ; len(queue) > 0; queue = queue[1:] {
		file := queue[0]
		s := g.scanFile(g.Config.RepoRoot, file)
		if seen[file] || s == nil {
			continue
		}
		seen[file] = true
		for _, inc := range s.includes {
			found, ok := g.plan.find(inc, dirs)
			if !ok || g.settings.overrides(inc, found.file) {
				gr.want(wanted{include: inc})
				continue
			}
			owner := g.plan.ownerOf(found.file)
			provided, shared := g.plan.isProvided(found.file), g.plan.isShared(found.file)
			library := ""
			if owner == g.Rel && gr.leaf && !provided {
				library = g.headerOf(g.name(found.file))
			}
			switch {
			case library != "":
				gr.local = union(gr.local, []string{":" + library})
				g.search(gr, found)
			case owner != g.Rel || provided || shared && !g.keepsHeaders(gr):
				gr.want(wanted{include: inc, found: found})
				if !provided || shared {
					queue = append(queue, found.file)
				}
			default:
				queue = append(queue, found.file)
				g.own(gr, found, inc)
			}
		}
	}
	slices.Sort(gr.hdrs)
	slices.Sort(gr.textual)
}

// keepsHeaders reports whether other packages get the headers of a group from its rule.
func (g *generator) keepsHeaders(gr *group) bool {
	s := g.plan.shared[g.Rel]
	return isLinked(gr.kind) && !gr.leaf && s != nil && len(s.includes) == 0
}

// own adds a header of the package to a group.
func (g *generator) own(gr *group, found location, inc include) {
	name := g.name(found.file)
	g.search(gr, found)
	switch {
	case found.file == inc.file || slices.Contains(gr.srcs, name):
	case isHeader(name):
		gr.hdrs = union(gr.hdrs, []string{name})
	default:
		gr.textual = union(gr.textual, []string{name})
	}
}

// search adds the directory in which the compiler finds a header of the package.
func (g *generator) search(gr *group, found location) {
	if !found.near {
		gr.includes = union(gr.includes, []string{relative(g.Rel, found.dir)})
	}
}

func (gr *group) want(w wanted) {
	same := func(other wanted) bool {
		return other.path == w.path && other.angle == w.angle && other.found == w.found
	}
	if !slices.ContainsFunc(gr.elsewhere, same) {
		gr.elsewhere = append(gr.elsewhere, w)
	}
}

// name returns the name in the package of a file of the repository.
func (g *generator) name(file string) string {
	name, _ := pathIn(g.Rel, file)
	return name
}

// headerOf returns the library of the package that has a header: the
// one named after it, or the only one.
func (g *generator) headerOf(header string) string {
	var only string
	for _, gr := range g.groups {
		if !isLinked(gr.kind) || gr.leaf || !slices.Contains(gr.hdrs, header) {
			continue
		}
		if slices.ContainsFunc(gr.srcs, func(src string) bool { return stemOf(src) == stemOf(header) }) {
			return gr.name
		}
		if only != "" {
			return ""
		}
		only = gr.name
	}
	return only
}
