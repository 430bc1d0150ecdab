package offload

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// compileCommand is an entry of compile_commands.json:
// https://clang.llvm.org/docs/JSONCompilationDatabase.html
type compileCommand struct {
	Directory string   `json:"directory"`
	File      string   `json:"file"`
	Command   string   `json:"command"`
	Arguments []string `json:"arguments"`
	Output    string   `json:"output"`
}

// database reads the targets of a build with CMake from its compile_commands.json and, where they
// exist, its link commands and the replies of its File API.
type database struct {
	root   string   // of the repository
	places []string // the roots that absolute paths can have in the database
	build  string   // the build directory
	units  map[string]*placedUnit
	order  []string
}

type placedUnit struct {
	unit
	dir string // the directory for its rule
}

// targetOutput finds the target in the output of a compilation.
var targetOutput = regexp.MustCompile(`^(.*/)?CMakeFiles/([^/]+)\.dir/`)

// readCompileCommands returns the hints of each directory that compile_commands.json describes.
// name is its path in the repository, which dir belongs to.
func readCompileCommands(root, dir, name string) (map[string]*hints, error) {
	file := filepath.Join(root, filepath.FromSlash(name))
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var commands []compileCommand
	if err := json.Unmarshal(data, &commands); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d := &database{root: root, build: filepath.Dir(file), units: map[string]*placedUnit{}}
	for i := range commands {
		commands[i].Directory = d.directory(commands[i])
	}
	d.findPlaces(dir, commands)
	for _, c := range commands {
		d.add(c)
	}
	d.readLinks()
	d.readReplies()
	found := map[string]*hints{}
	for _, key := range d.order {
		u := d.units[key]
		if len(u.srcs) == 0 {
			continue
		}
		if found[u.dir] == nil {
			found[u.dir] = &hints{file: name}
		}
		found[u.dir].units = append(found[u.dir].units, u.unit)
	}
	return found, nil
}

// directory returns the absolute directory of a command. Tools that write relative ones mean that
// of the database or the top of the repository.
func (d *database) directory(c compileCommand) string {
	dir := filepath.ToSlash(c.Directory)
	if path.IsAbs(dir) {
		return dir
	}
	for _, base := range []string{d.build, d.root} {
		at := path.Join(filepath.ToSlash(base), dir)
		if info, err := os.Stat(filepath.FromSlash(d.in(at, c.File))); err == nil && info.Mode().IsRegular() {
			return at
		}
	}
	return path.Join(filepath.ToSlash(d.root), dir)
}

// findPlaces finds the root that paths in the database have: this repository, or the one on the
// machine that wrote it.
func (d *database) findPlaces(dir string, commands []compileCommand) {
	d.places = []string{filepath.ToSlash(d.root)}
	for _, c := range commands {
		file := path.Clean(filepath.ToSlash(c.File))
		if !path.IsAbs(file) {
			file = path.Join(filepath.ToSlash(c.Directory), file)
		}
		if _, ok := d.rel(file); ok {
			continue
		}
		parts := strings.Split(file, "/")
		for i := 1; i < len(parts); i++ {
			rest := path.Join(parts[i:]...)
			for _, base := range []string{dir, ""} {
				if isFile(d.root, path.Join(base, rest)) {
					place := strings.Join(parts[:i], "/")
					if base != "" && strings.HasSuffix(place, "/"+base) {
						place = strings.TrimSuffix(place, "/"+base)
					} else if base != "" {
						place += "\x00" + base
					}
					d.places = append(d.places, place)
					return
				}
			}
		}
	}
}

// rel returns the path in the repository of an absolute path. ok is false for other paths.
func (d *database) rel(file string) (string, bool) {
	for _, place := range d.places {
		prefix, base, _ := strings.Cut(place, "\x00")
		if file == prefix {
			return base, true
		}
		if rest, ok := strings.CutPrefix(file, prefix+"/"); ok {
			return path.Join(base, rest), true
		}
	}
	return "", false
}

// add adds a compilation to the unit of its target.
func (d *database) add(c compileCommand) {
	args := c.Arguments
	if len(args) == 0 {
		args = words(c.Command)
	}
	file := d.in(c.Directory, c.File)
	src, ok := d.rel(file)
	if !ok || !isSource(src) || !isFile(d.root, src) {
		return
	}
	// The entry's own output is relative to the top of the build directory, that of the command to
	// the directory of the command.
	output, from := c.Output, d.build
	if at := slices.Index(args, "-o"); at >= 0 && at+1 < len(args) {
		output, from = args[at+1], c.Directory
	}
	u := d.unitOf(output, from, src)
	u.srcs = union(u.srcs, []string{src})
	u.compile([]string{src}, d.flags(c.Directory, args))
}

// unitOf returns the unit of the target that a compilation is of.
func (d *database) unitOf(output, directory, src string) *placedUnit {
	key, name, dir := "\x00"+path.Dir(src), "", path.Dir(src)
	if m := targetOutput.FindStringSubmatch(filepath.ToSlash(output)); m != nil {
		key, name = m[2], m[2]
		// CMake's build directory has the structure of the sources.
		at := path.Join(filepath.ToSlash(directory), m[1])
		if path.IsAbs(m[1]) {
			at = path.Clean(m[1])
		}
		if below, err := filepath.Rel(d.buildRoot(directory, output), at); err == nil {
			dir = d.sourceFolder(filepath.ToSlash(below), src)
		}
	}
	dir = relOf(dir)
	u, ok := d.units[key]
	if !ok {
		u = &placedUnit{dir: dir}
		u.name = name
		d.units[key] = u
		d.order = append(d.order, key)
	}
	return u
}

// buildRoot returns the top of the build directory of a compilation. Ninja runs all there; make
// runs compilations in the directory of their target.
func (d *database) buildRoot(directory, _ string) string {
	directory = filepath.ToSlash(directory)
	if real, err := filepath.EvalSymlinks(d.build); err == nil && strings.HasPrefix(directory+"/", filepath.ToSlash(real)+"/") {
		return filepath.ToSlash(real)
	}
	return directory
}

// sourceFolder returns the directory above a source whose path ends with that of a directory in the
// build directory, or the directory of the source without one.
func (d *database) sourceFolder(below, src string) string {
	for dir := dirOf(src); ; dir = dirOf(dir) {
		if below != "." && (dir == below || strings.HasSuffix(dir, "/"+below)) {
			return dir
		}
		if below == "." && isFile(d.root, path.Join(dir, cmakeFile)) {
			return dir
		}
		if dir == "" {
			return dirOf(src)
		}
	}
}

// in returns an absolute path.
func (d *database) in(directory, file string) string {
	file = filepath.ToSlash(file)
	if !path.IsAbs(file) {
		file = path.Join(filepath.ToSlash(directory), file)
	}
	return path.Clean(file)
}

// flags parses a command line with paths in the repository.
func (d *database) flags(directory string, args []string) flags {
	var placed []string
	for i, arg := range args {
		for _, flag := range []string{"-I", "-isystem", "-iquote"} {
			folder, ok := strings.CutPrefix(arg, flag)
			if i > 0 && args[i-1] == flag {
				folder, ok = arg, true
			}
			if !ok || folder == "" {
				continue
			}
			if rel, inside := d.rel(d.in(directory, folder)); inside {
				arg = strings.TrimSuffix(arg, folder) + "./" + rel
			}
			break
		}
		placed = append(placed, arg)
	}
	return parseFlags("", placed)
}

// readLinks reads the link commands that CMake writes for make.
func (d *database) readLinks() {
	_ = filepath.WalkDir(d.build, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() != "link.txt" {
			return nil
		}
		target := strings.TrimSuffix(filepath.Base(filepath.Dir(name)), ".dir")
		if u, ok := d.units[target]; ok {
			if data, err := os.ReadFile(name); err == nil {
				d.link(u, words(string(data)))
			}
		}
		return nil
	})
}

// link adds the libraries of a link command to a unit.
func (d *database) link(u *placedUnit, args []string) {
	f := parseFlags("", args)
	u.flags.linkopts, u.flags.libs = union(u.flags.linkopts, f.linkopts), union(u.flags.libs, f.libs)
	u.flags.rdc = u.flags.rdc || f.rdc
	for _, arg := range args {
		if m := targetOutput.FindStringSubmatch(filepath.ToSlash(arg)); m != nil && m[2] != u.name && d.units[m[2]] != nil {
			u.links = union(u.links, []string{m[2]}) // an object library
			continue
		}
		base := filepath.Base(arg)
		name, ext, _ := strings.Cut(base, ".")
		if strings.HasPrefix(arg, "-") || !strings.HasPrefix(name, "lib") || ext != "a" && !strings.HasPrefix(ext, "so") {
			continue
		}
		name = strings.TrimPrefix(name, "lib")
		if _, ours := d.units[name]; ours && name != u.name {
			u.links = union(u.links, []string{name})
		} else if library := rocmLibraryOf(name); library != "" {
			u.flags.libs = union(u.flags.libs, []string{library})
		}
	}
}

// reply is the required part of a reply of CMake's File API about a target:
// https://cmake.org/cmake/help/latest/manual/cmake-file-api.7.html
type reply struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Type  string `json:"type"`
	Paths struct {
		Source string `json:"source"`
	} `json:"paths"`
	Sources []struct {
		Path              string `json:"path"`
		CompileGroupIndex *int   `json:"compileGroupIndex"`
	} `json:"sources"`
	CompileGroups []struct {
		CompileCommandFragments []fragment `json:"compileCommandFragments"`
		Defines                 []struct {
			Define string `json:"define"`
		} `json:"defines"`
		Includes []struct {
			Path string `json:"path"`
		} `json:"includes"`
	} `json:"compileGroups"`
	Link struct {
		CommandFragments []fragment `json:"commandFragments"`
	} `json:"link"`
	Dependencies []struct {
		ID string `json:"id"`
	} `json:"dependencies"`
}

type fragment struct {
	Fragment string `json:"fragment"`
}

// readReplies reads the replies of CMake's File API in the build directory. A target with a reply
// is described by it alone.
func (d *database) readReplies() {
	files, _ := filepath.Glob(filepath.Join(d.build, ".cmake", "api", "v1", "reply", "target-*.json"))
	replies := map[string]*reply{}
	for _, file := range files {
		r := &reply{}
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, r) == nil && r.Name != "" {
			replies[r.ID] = r
		}
	}
	source := d.sourceRoot()
	for _, file := range files {
		for _, r := range replies {
			if strings.HasPrefix(filepath.Base(file), "target-"+r.Name+"-") {
				d.reply(source, r, replies)
			}
		}
	}
}

// sourceRoot returns the directory of the repository that paths of replies are relative to.
func (d *database) sourceRoot() string {
	files, _ := filepath.Glob(filepath.Join(d.build, ".cmake", "api", "v1", "reply", "codemodel-*.json"))
	for _, file := range files {
		var model struct {
			Paths struct {
				Source string `json:"source"`
			} `json:"paths"`
		}
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &model) == nil {
			if rel, ok := d.rel(path.Clean(filepath.ToSlash(model.Paths.Source))); ok {
				return rel
			}
		}
	}
	return ""
}

// reply sets the unit of a target from its reply.
func (d *database) reply(source string, r *reply, replies map[string]*reply) {
	u := &placedUnit{dir: relOf(path.Join(source, r.Paths.Source))}
	u.name = r.Name
	groups := make([][]string, len(r.CompileGroups))
	for _, s := range r.Sources {
		src, ok := path.Join(source, s.Path), true
		if path.IsAbs(s.Path) {
			src, ok = d.rel(path.Clean(s.Path))
		}
		if i := s.CompileGroupIndex; ok && i != nil && *i >= 0 && *i < len(groups) && isSource(src) && isFile(d.root, src) {
			u.srcs = union(u.srcs, []string{src})
			groups[*i] = append(groups[*i], src)
		}
	}
	for i, group := range r.CompileGroups {
		var args []string
		for _, part := range group.CompileCommandFragments {
			args = append(args, words(part.Fragment)...)
		}
		for _, define := range group.Defines {
			args = append(args, "-D"+define.Define)
		}
		for _, include := range group.Includes {
			args = append(args, "-I"+include.Path)
		}
		u.compile(groups[i], d.flags(filepath.ToSlash(d.build), args))
	}
	for _, part := range r.Link.CommandFragments {
		d.link(u, words(part.Fragment))
	}
	for _, dep := range r.Dependencies {
		if other, ok := replies[dep.ID]; ok && slices.Contains([]string{"STATIC_LIBRARY", "SHARED_LIBRARY", "OBJECT_LIBRARY"}, other.Type) {
			u.links = union(u.links, []string{other.Name})
		}
	}
	if _, known := d.units[r.Name]; !known {
		d.order = append(d.order, r.Name)
	}
	d.units[r.Name] = u
}
