package offload

import (
	"log"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bazelbuild/bazel-gazelle/config"
	"github.com/bazelbuild/bazel-gazelle/rule"
	"github.com/bazelbuild/bazel-gazelle/walk"
)

// plan is what the extension knows of the whole repository before it writes the first rule. A
// rule can need headers and sources of directories that Gazelle has already visited, or visits later.
type plan struct {
	*offload
	c       *config.Config
	folders map[string]*folder
	// byName are the sources and headers of the repository by base name.
	byName map[string][]string
	// claimed are the sources that a unit of another directory lists, by path in the repository.
	claimed map[string]bool
	// included are the sources that another source includes.
	included map[string]bool
	// shared is what each package provides to the rules of others.
	shared map[string]*shared
	// linked are the units that have code for HIP or are linked with such a unit.
	linked map[unitName]bool
	// deepScans are the results of deep so far.
	deepScans map[string]*scan
}

// folder is a directory of the repository.
type folder struct {
	rel      string
	files    []string // sorted
	settings *settings
	hints    *hints
	// build is the BUILD file, nil without one.
	build *rule.File
	// hip is true if the directory gets rules for sources.
	hip bool
}

// units returns what other build files link of the sources of the directory.
func (f *folder) units() []unit {
	if f.hints == nil {
		return nil
	}
	return f.hints.units
}

// shared are the files of a package that rules of other packages need and no target has.
type shared struct {
	headers  []string // by path in the repository
	includes []string // directories from which they are included
	sources  []string
}

// newPlan reads the repository. Gazelle's index of directories leaves out what directives exclude.
func (l *offload) newPlan(c *config.Config) *plan {
	p := &plan{
		offload: l, c: c, folders: map[string]*folder{}, byName: map[string][]string{},
		claimed: map[string]bool{}, included: map[string]bool{}, shared: map[string]*shared{}, deepScans: map[string]*scan{}, linked: map[unitName]bool{},
	}
	p.walk("", l.rootSettings)
	rels := slices.Sorted(maps.Keys(p.folders))
	databases := map[string]map[string]*hints{}
	for _, rel := range rels {
		p.readHints(p.folders[rel], databases)
	}
	p.findLinked()
	for _, rel := range rels {
		p.claim(p.folders[rel])
	}
	for _, rel := range rels {
		p.findIncluded(p.folders[rel])
	}
	for _, rel := range rels {
		f := p.folders[rel]
		if f.hip = p.hasRules(f); f.hip {
			l.packages[rel] = true
		}
	}
	for _, rel := range rels {
		p.request(p.folders[rel])
	}
	return p
}

// walk records a directory and those below it.
func (p *plan) walk(rel string, s *settings) {
	info, err := walk.GetDirInfo(rel)
	if err != nil {
		return
	}
	f := &folder{rel: rel, files: slices.Sorted(slices.Values(slices.Concat(info.RegularFiles, info.GenFiles))), build: info.File}
	f.settings = s
	if info.File != nil {
		f.settings = s.with(info.File, rel, nil)
		p.packages[rel] = true
		p.noteLibraries(p.c, rel, info.File.Rules)
	}
	p.folders[rel] = f
	for _, file := range f.files {
		if isHeader(file) || isSource(file) {
			p.byName[file] = append(p.byName[file], path.Join(rel, file))
		}
	}
	for _, sub := range info.Subdirs {
		p.walk(path.Join(rel, sub), f.settings)
	}
}

// has reports whether a path in the repository is a file.
func (p *plan) has(file string) bool {
	f, ok := p.folders[dirOf(file)]
	if !ok {
		return false
	}
	_, ok = slices.BinarySearch(f.files, path.Base(file))
	return ok
}

// readHints reads what other build files say of the sources of a directory.
func (p *plan) readHints(f *folder, databases map[string]map[string]*hints) {
	if !f.settings.enabled || !f.settings.hints {
		return
	}
	if name := f.settings.compileCommands; name != "" {
		found, ok := databases[name]
		if !ok {
			var err error
			if found, err = readCompileCommands(p.c.RepoRoot, f.settings.compileCommandsDir, name); err != nil {
				log.Printf("# gazelle:%s: %v", compileCommandsDirective, err)
			}
			databases[name] = found
		}
		if f.hints = found[f.rel]; f.hints == nil && found != nil {
			f.hints = &hints{file: name}
		}
		if f.hints != nil {
			f.hints.complete = true
		}
		return
	}
	for _, name := range makefileNames {
		if _, ok := slices.BinarySearch(f.files, name); ok {
			f.hints = readMakefile(p.c.RepoRoot, f.rel, name)
			break
		}
	}
	if f.hints == nil || !f.hints.cuda && len(f.hints.units) == 0 {
		if _, ok := slices.BinarySearch(f.files, cmakeFile); ok {
			if h := readCMake(p.c.RepoRoot, f.rel); h != nil {
				f.hints = h
			}
		}
	}
}

// unitsOf returns the units of a directory that have code for HIP, and those that are linked with
// one of these.
func (p *plan) unitsOf(f *folder) []unit {
	var units []unit
	for _, u := range f.units() {
		if p.linked[unitName{f.rel, u.name}] || p.hasHIP(u) {
			units = append(units, u)
		}
	}
	return units
}

func (p *plan) hasHIP(u unit) bool {
	return slices.ContainsFunc(u.srcs, func(src string) bool {
		return p.isHIP(src) || u.hip && path.Ext(src) == ".cu" || slices.Contains(u.asHIP, src)
	})
}

// unitName identifies a unit: directories can have units of the same name.
type unitName struct{ dir, name string }

// findLinked finds the named units that have code for HIP, that link such a unit, or that such a
// unit links.
func (p *plan) findLinked() {
	dirs := map[string][]string{} // of the units with a name
	for rel, f := range p.folders {
		for _, u := range f.units() {
			if u.name != "" {
				dirs[u.name] = append(dirs[u.name], rel)
			}
		}
	}
	links := map[unitName][]unitName{}
	for rel, f := range p.folders {
		for _, u := range f.units() {
			if u.name == "" {
				continue
			}
			from := unitName{rel, u.name}
			for _, link := range u.links {
				for _, dir := range nearest(rel, dirs[link]) {
					links[from] = append(links[from], unitName{dir, link})
				}
			}
			if p.hasHIP(u) {
				p.linked[from] = true
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for from, others := range links {
			for _, to := range others {
				if p.linked[from] != p.linked[to] {
					p.linked[from], p.linked[to], changed = true, true, true
				}
			}
		}
	}
}

// nearest returns those directories whose paths have most elements in common with that of another.
func nearest(rel string, dirs []string) []string {
	var found []string
	most := -1
	for _, dir := range dirs {
		common := 0
		for a, b := rel+"/", dir+"/"; a != "" && b != ""; common++ {
			first, rest, _ := strings.Cut(a, "/")
			other, after, _ := strings.Cut(b, "/")
			if first != other {
				break
			}
			a, b = rest, after
		}
		if common > most {
			found, most = nil, common
		}
		if common == most {
			found = append(found, dir)
		}
	}
	return found
}

// isHIP reports whether a source, by its path in the repository, is for HIP.
func (p *plan) isHIP(src string) bool {
	s := p.scanFile(p.c.RepoRoot, src)
	if s == nil {
		return false
	}
	switch path.Ext(src) {
	case ".hip":
		return true
	case ".cu":
		return !s.isCUDA()
	}
	return s.kernel || s.chevrons || s.usesHIP()
}

// claim records the sources below a directory that its units list.
func (p *plan) claim(f *folder) {
	for _, u := range p.unitsOf(f) {
		for _, src := range u.srcs {
			if dirOf(src) != f.rel {
				p.claimed[src] = true
			}
		}
	}
}

// findIncluded records the sources that sources and headers of a directory include.
func (p *plan) findIncluded(f *folder) {
	for _, file := range f.files {
		if !isSource(file) && !isHeader(file) {
			continue
		}
		s := p.scanFile(p.c.RepoRoot, path.Join(f.rel, file))
		if s == nil {
			continue
		}
		for _, inc := range s.includes {
			if !isSource(inc.path) {
				continue
			}
			if found, ok := p.locate(inc, p.searched(f, nil)); ok && found.file != inc.file {
				p.included[found.file] = true
			}
		}
	}
}

// hasRules reports whether a directory gets rules for its sources.
func (p *plan) hasRules(f *folder) bool {
	if !f.settings.enabled || f.build == nil && f.settings.updateOnly {
		return false
	}
	return len(p.unitsOf(f)) > 0 || slices.ContainsFunc(f.files, func(file string) bool {
		src := path.Join(f.rel, file)
		return !p.claimed[src] && !p.isListedAbove(f, src) && p.kindFor(f, file) != ""
	})
}

// isListedAbove reports whether a rule of the package above lists a source of a directory that is no
// package.
func (p *plan) isListedAbove(f *folder, src string) bool {
	return f.build == nil && slices.ContainsFunc(f.settings.listed, func(listed patterns) bool { return listed.match(src) })
}

// searched returns the directories in which the compiler searches for the includes of a unit, or,
// with nil, of any source of a directory.
func (p *plan) searched(f *folder, u *unit) []string {
	dirs := slices.Clone(f.settings.includes)
	switch {
	case u != nil:
		dirs = union(dirs, u.flags.includes)
	case f.hints != nil:
		dirs = union(dirs, f.hints.flags.includes)
		for _, u := range f.units() {
			dirs = union(dirs, u.flags.includes)
		}
	}
	return dirs
}

// location is where an include was found.
type location struct {
	file string // by its path in the repository
	// dir is the directory of the search path that has it. near is true if the compiler needs none.
	dir  string
	near bool
}

// locate finds an include: in the directory of the file that contains it, then in directories, then
// from the root of the repository.
func (p *plan) locate(inc include, dirs []string) (location, bool) {
	inside := func(file string) bool { return !path.IsAbs(inc.path) && p.has(file) }
	if file := path.Join(path.Dir(inc.file), inc.path); !inc.angle && inside(file) {
		return location{file: file, near: true}, true
	}
	for _, dir := range dirs {
		if file := path.Join(dir, inc.path); inside(file) {
			return location{file: file, dir: dir}, true
		}
	}
	if !inc.angle && inside(inc.path) {
		return location{file: inc.path, near: true}, true
	}
	return location{}, false
}

// generated returns the file that an include of a package names in an excluded directory of the
// search path, such as the build directory of CMake; or "".
func (p *plan) generated(pkg string, inc include) string {
	f := p.folders[pkg]
	if f == nil {
		return ""
	}
	for _, dir := range p.searched(f, nil) {
		if file := path.Join(dir, inc.path); isFile(p.c.RepoRoot, file) && !p.has(file) {
			return file
		}
	}
	return ""
}

// isProject reports whether an include in angle brackets can be of the repository: it names a
// directory that is none of the system's, the compiler's or ROCm's.
func (inc include) isProject() bool {
	folder, _, ok := strings.Cut(inc.path, "/")
	return ok && folder != "hip" && rocmLibraryOf(folder) == "" && !inc.isCUDAHeader() && !slices.Contains(systemFolders, folder)
}

// systemFolders are directories of headers of the system and its compilers.
var systemFolders = []string{"arpa", "asm", "bits", "boost", "experimental", "ext", "gnu", "linux", "net", "netinet", "openssl", "sys", "tr1", "x86_64-linux-gnu"}

// candidates returns the files of the repository whose path ends with that of an include.
func (p *plan) candidates(inc include) []string {
	if strings.HasPrefix(inc.path, "../") || inc.angle && !inc.isProject() {
		return nil
	}
	var found []string
	for _, file := range p.byName[path.Base(inc.path)] {
		if strings.HasSuffix("/"+file, "/"+inc.path) && isHeader(file) && file != inc.file {
			found = append(found, file)
		}
	}
	return found
}

// find finds an include as locate does, or else the only file of the repository whose path ends
// with that of the include, unless a library provides it by that path.
func (p *plan) find(inc include, dirs []string) (location, bool) {
	if found, ok := p.locate(inc, dirs); ok {
		return found, true
	}
	candidates := p.candidates(inc)
	if inside := slices.DeleteFunc(slices.Clone(candidates), func(file string) bool { return !strings.HasPrefix(file, path.Dir(inc.file)+"/") }); len(inside) == 1 {
		candidates = inside
	}
	if len(candidates) == 1 && len(p.providers(inc)) == 0 {
		dir := strings.TrimSuffix(strings.TrimSuffix(candidates[0], inc.path), "/")
		return location{file: candidates[0], dir: dir}, true
	}
	return location{}, false
}

// request records what the sources of a directory need of other packages.
func (p *plan) request(f *folder) {
	if !f.hip {
		return
	}
	units := p.unitsOf(f)
	listed := map[string]bool{}
	for i, u := range units {
		for _, src := range u.srcs {
			listed[src] = true
			if owner := p.ownerOf(src); owner != f.rel {
				s := p.sharedOf(owner)
				s.sources = union(s.sources, []string{src})
			}
		}
		p.requestHeaders(f, u.srcs, p.searched(f, &units[i]))
	}
	var others []string
	for _, file := range f.files {
		if src := path.Join(f.rel, file); !listed[src] && !p.claimed[src] && !p.isListedAbove(f, src) && isSource(file) && (p.kindFor(f, file) != "" || len(units) == 0) {
			others = append(others, src)
		}
	}
	p.requestHeaders(f, others, p.searched(f, nil))
}

// requestHeaders follows the includes of sources, and records the headers of other packages that
// no library has.
func (p *plan) requestHeaders(f *folder, sources, dirs []string) {
	seen := map[string]bool{}
	for queue := slices.Clone(sources); len(queue) > 0; queue = queue[1:] {
		file := queue[0]
		s := p.scanFile(p.c.RepoRoot, file)
		if seen[file] || s == nil {
			continue
		}
		seen[file] = true
		for _, inc := range s.includes {
			found, ok := p.find(inc, dirs)
			if !ok || f.settings.overrides(inc, found.file) {
				continue
			}
			owner := p.ownerOf(found.file)
			if p.isProvided(found.file) {
				if p.isShared(found.file) {
					queue = append(queue, found.file)
				}
				continue
			}
			queue = append(queue, found.file)
			if owner == f.rel {
				continue
			}
			s := p.sharedOf(owner)
			s.headers = union(s.headers, []string{found.file})
			if !found.near {
				s.includes = union(s.includes, []string{found.dir})
			}
		}
	}
}

func (p *plan) sharedOf(owner string) *shared {
	s, ok := p.shared[owner]
	if !ok {
		s = &shared{}
		p.shared[owner] = s
	}
	return s
}

// isShared reports whether the rule that writeShared writes, or wrote, has a header.
func (p *plan) isShared(file string) bool {
	owner := p.ownerOf(file)
	if s := p.shared[owner]; s != nil && slices.Contains(s.headers, file) {
		return true
	}
	return slices.ContainsFunc(p.libraries[owner], func(lib *library) bool { return lib.shared && lib.provides(p.c, file) })
}

// isProvided reports whether a library that somebody else wrote has a header.
func (p *plan) isProvided(file string) bool {
	pkg, ok := p.packageOf(p.c, file)
	return ok && slices.ContainsFunc(p.libraries[pkg], func(lib *library) bool { return lib.provides(p.c, file) })
}

// providers returns the libraries that provide an include by its path as written.
func (p *plan) providers(inc include) []*library {
	var found []*library
	for _, pkg := range slices.Sorted(maps.Keys(p.libraries)) {
		for _, lib := range p.libraries[pkg] {
			if !lib.shared && lib.providesAs(p.c, inc.path) {
				found = append(found, lib)
			}
		}
	}
	return found
}

// ownerOf returns the package that a file belongs to. It is the nearest one, if that has rules for
// sources or names the file; otherwise the directory of the file, which becomes a package.
func (p *plan) ownerOf(file string) string {
	dir := dirOf(file)
	owner, ok := p.packageOf(p.c, file)
	if ok && owner == dir {
		return owner
	}
	if f := p.folders[owner]; ok && f != nil {
		if f.hip || p.folders[dir] == nil || p.folders[dir].settings.updateOnly {
			return owner
		}
		if f.build != nil && namesFile(f.build.Rules, owner, file) {
			return owner
		}
	}
	p.packages[dir] = true
	return dir
}

// namesFile reports whether a rule of a package has a file in an attribute for files.
func namesFile(rules []*rule.Rule, pkg, file string) bool {
	name, inside := pathIn(pkg, file)
	return inside && slices.ContainsFunc(rules, func(r *rule.Rule) bool {
		return slices.ContainsFunc([]string{srcsAttr, hdrsAttr, textualAttr, "data"}, func(attr string) bool {
			e := r.Attr(attr)
			return e != nil && patternsOf(e).match(name)
		})
	})
}

// kindFor returns the kind of rule for a source of a directory, or "" if it has no device code. A
// source of hipKind can also be in a libraryKind: see hipKindIn.
func (p *plan) kindFor(f *folder, file string) string {
	src := path.Join(f.rel, file)
	if !isSource(file) || p.included[src] {
		return ""
	}
	s := p.scanFile(p.c.RepoRoot, src)
	if s == nil {
		return ""
	}
	switch path.Ext(file) {
	case ".hip":
		return hipKind
	case ".cu":
		if all := p.deep(f, src); !p.isCUDA(f, src) && (all.kernel || all.device || all.launch || s.usesHIP() || s.main && all.hipAPI) {
			return hipKind
		}
	case ".cc", ".cpp", ".cxx":
		cuda := s.isCUDA() || f.hints != nil && f.hints.cuda && !s.usesHIP()
		if !cuda && (s.kernel || s.chevrons || p.deviceOnly(f, src) || s.main && p.deep(f, src).hipAPI) {
			return hipKind
		} else if s.target {
			return openmpKind
		}
	case ".c", ".C", ".c++":
		if s.target {
			return openmpKind
		}
	}
	return ""
}

// isCUDA reports whether a .cu source is for nvcc. A source that uses neither CUDA's nor HIP's
// runtime is for the compiler of the other sources of its directory.
func (p *plan) isCUDA(f *folder, src string) bool {
	s := p.scanFile(p.c.RepoRoot, src)
	if s.isCUDA() || s.usesHIP() {
		return !s.usesHIP()
	}
	if f.hints != nil && f.hints.cuda {
		return true
	}
	cuda := false
	for _, file := range f.files {
		if path.Ext(file) != ".cu" && path.Ext(file) != ".hip" {
			continue
		}
		if other := p.scanFile(p.c.RepoRoot, path.Join(f.rel, file)); other != nil {
			if other.usesHIP() || path.Ext(file) == ".hip" {
				return false
			}
			cuda = cuda || other.isCUDA()
		}
	}
	return cuda
}

// deep returns the properties of a source and of the headers of the repository that it includes.
func (p *plan) deep(f *folder, src string) *scan {
	if all, ok := p.deepScans[src]; ok {
		return all
	}
	all := &scan{}
	dirs := p.searched(f, nil)
	seen := map[string]bool{}
	for queue := []string{src}; len(queue) > 0; queue = queue[1:] {
		s := p.scanFile(p.c.RepoRoot, queue[0])
		if seen[queue[0]] || s == nil {
			continue
		}
		seen[queue[0]] = true
		all.kernel = all.kernel || s.kernel
		all.device = all.device || s.device
		all.launch = all.launch || s.launch
		all.portable = all.portable || s.portable
		all.hipAPI = all.hipAPI || s.usesHIP()
		all.cudaAPI = all.cudaAPI || s.isCUDA()
		for _, inc := range s.includes {
			if found, ok := p.locate(inc, dirs); ok {
				queue = append(queue, found.file)
			}
		}
	}
	p.deepScans[src] = all
	return all
}

// deviceOnly reports whether a C++ source has __device__ functions and no syntax that requires
// HIP's compiler. It returns false for a source that C++ compilers can also read, alone or with
// the headers of the repository that it includes, because the source may be for them.
func (p *plan) deviceOnly(f *folder, src string) bool {
	switch path.Ext(src) {
	case ".cc", ".cpp", ".cxx":
	default:
		return false
	}
	s := p.scanFile(p.c.RepoRoot, src)
	if s == nil || !s.device || s.kernel || s.chevrons || s.target {
		return false
	}
	all := p.deep(f, src)
	return !all.portable && !all.cudaAPI
}
