package offload

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// cmakeLists is a CMakeLists.txt, evaluated as far as its text allows. Functions and macros are
// not followed, except that a call with the word SOURCES is read as the program that it names.
type cmakeLists struct {
	root, dir string // of the repository, and of the file in it
	vars      map[string][]string
	all       flags // of include_directories and similar
	targets   []*cmakeTarget
	// properties are the values of properties of sources, by path in the repository and name. They
	// apply to the targets of the file.
	properties map[string]map[string][]string
}

type cmakeTarget struct {
	unit
	library bool
}

const cmakeFile = "CMakeLists.txt"

// readCMake returns what the CMakeLists.txt of a directory says, with the variables and flags of
// those in the directories above; nil if the directory has none.
func readCMake(root, dir string) *hints {
	if !isFile(root, path.Join(dir, cmakeFile)) {
		return nil
	}
	above := []string{dir}
	for up := dir; up != ""; {
		if up = dirOf(up); !isFile(root, path.Join(up, cmakeFile)) {
			break
		}
		above = append(above, up)
	}
	c := &cmakeLists{root: root, vars: map[string][]string{}}
	for _, folder := range slices.Backward(above) {
		c.dir, c.targets, c.properties = folder, nil, map[string]map[string][]string{}
		here := folder
		if here == "" {
			here = "."
		}
		// Paths are relative to the repository, marked by a first element that is no name.
		for _, name := range []string{"CMAKE_CURRENT_SOURCE_DIR", "CMAKE_CURRENT_LIST_DIR"} {
			c.vars[name] = []string{repositoryMark + here}
		}
		for _, name := range []string{"CMAKE_SOURCE_DIR", "PROJECT_SOURCE_DIR"} {
			if _, ok := c.vars[name]; !ok {
				c.vars[name] = []string{repositoryMark + here}
			}
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(folder), cmakeFile))
		if err != nil {
			return nil
		}
		c.run(string(data))
	}
	h := &hints{file: path.Join(dir, cmakeFile), flags: c.all}
	for _, t := range c.targets {
		all := c.all
		all.add(t.flags)
		t.flags = all
		c.applyProperties(&t.unit)
		if len(t.srcs) > 0 {
			h.units = append(h.units, t.unit)
		}
	}
	return h
}

// maxCMakeSize limits the size of a variable, in bytes, for files whose values grow without end.
const maxCMakeSize = 1 << 18

// repositoryMark begins absolute paths below the root of the repository.
const repositoryMark = "/\x00/"

// command is a call in a CMakeLists.txt.
type cmakeCommand struct {
	name string
	args []string
}

// run evaluates the commands of a file.
func (c *cmakeLists) run(text string) {
	var taken []bool
	skip := "" // the end of the function or macro that is being defined
	for _, command := range cmakeCommands(text) {
		switch {
		case skip != "":
			if command.name == skip {
				skip = ""
			}
			continue
		case command.name == "function" || command.name == "macro":
			skip = "end" + command.name
			continue
		case command.name == "if":
			taken = append(taken, c.holds(command.args))
			continue
		case command.name == "elseif" || command.name == "else":
			if len(taken) > 0 {
				taken[len(taken)-1] = !taken[len(taken)-1] && (command.name == "else" || c.holds(command.args))
			}
			continue
		case command.name == "endif":
			taken = taken[:max(0, len(taken)-1)]
			continue
		}
		if !slices.Contains(taken, false) {
			c.command(command)
		}
	}
}

// holds evaluates a condition as for AMD's GPUs on Linux; it assumes that others hold.
func (c *cmakeLists) holds(condition []string) bool {
	text := strings.ToUpper(strings.Join(c.expand(condition), " "))
	other := false
	for _, word := range []string{"CUDA", "NVIDIA", "NVCC", "WIN32", "MSVC", "APPLE"} {
		other = other || strings.Contains(text, word)
	}
	if strings.HasPrefix(text, "NOT ") {
		return other
	}
	return !other
}

// expand replaces the variables of arguments. Lists become several arguments.
func (c *cmakeLists) expand(args []string) []string {
	var out []string
	for _, arg := range args {
		if name, ok := strings.CutPrefix(arg, "${"); ok && name != "" && strings.Index(name, "}") == len(name)-1 {
			out = append(out, c.vars[name[:len(name)-1]]...)
			continue
		}
		for range 8 { // references within references
			start := strings.LastIndex(arg, "${")
			if start < 0 {
				break
			}
			end := strings.Index(arg[start:], "}")
			if end < 0 {
				break
			}
			arg = arg[:start] + strings.Join(c.vars[arg[start+2:start+end]], ";") + arg[start+end+1:]
		}
		for part := range strings.SplitSeq(arg, ";") {
			// Generator expressions depend on the build; those of the build interface are plain.
			part = strings.TrimSuffix(strings.TrimPrefix(part, "$<BUILD_INTERFACE:"), ">")
			if part != "" && !strings.Contains(part, "$<") {
				out = append(out, part)
			}
		}
	}
	return out
}

// Words of commands that are no values.
var cmakeKeywords = []string{"PRIVATE", "PUBLIC", "INTERFACE", "BEFORE", "AFTER", "SYSTEM", "STATIC", "SHARED", "MODULE", "OBJECT", "EXCLUDE_FROM_ALL", "WIN32", "CACHE"}

func (c *cmakeLists) command(command cmakeCommand) {
	args := c.expand(command.args)
	if len(args) == 0 {
		return
	}
	values := slices.DeleteFunc(slices.Clone(args[1:]), func(arg string) bool { return slices.Contains(cmakeKeywords, arg) })
	t := c.target(args[0])
	switch command.name {
	case "set":
		if at := slices.Index(args, "CACHE"); at > 0 {
			args = args[:at]
		}
		c.set(args[0], args[1:])
	case "list":
		if len(args) > 2 && args[0] == "APPEND" {
			c.set(args[1], append(c.vars[args[1]], args[2:]...))
		}
	case "file":
		if len(args) > 2 && strings.HasPrefix(args[0], "GLOB") {
			c.glob(args[1], args[2:], args[0] == "GLOB_RECURSE")
		}
	case "add_executable", "hip_add_executable", "add_library", "hip_add_library":
		if !slices.Contains(args, "ALIAS") && !slices.Contains(args, "IMPORTED") {
			t = &cmakeTarget{library: strings.HasSuffix(command.name, "library")}
			t.name = args[0]
			c.targets = append(c.targets, t)
			c.sources(t, values)
		}
	case "target_sources":
		if t != nil {
			c.sources(t, values)
		}
	case "set_source_files_properties":
		if at := slices.Index(command.args, "PROPERTIES"); at >= 0 {
			files := c.expand(command.args[:at])
			// Each value is one argument, which can be a list.
			for pair := range slices.Chunk(command.args[at+1:], 2) {
				c.setProperty(files, pair[0], c.expand(pair[1:]), false)
			}
		}
	case "set_property":
		if at := slices.Index(args, "PROPERTY"); at >= 0 && at+1 < len(args) && args[0] == "SOURCE" {
			c.setProperty(args[1:at], args[at+1], args[at+2:], slices.ContainsFunc(args[:at], func(arg string) bool { return strings.HasPrefix(arg, "APPEND") }))
		}
	case "include_directories":
		c.includes(&c.all, args)
	case "add_definitions", "add_compile_options":
		c.all.add(parseFlags(c.dir, args))
	case "add_compile_definitions":
		c.all.add(parseFlags(c.dir, definitions(args)))
	case "link_libraries":
		c.link(nil, &c.all, args)
	case "target_include_directories":
		if t != nil {
			c.includes(&t.flags, values)
		}
	case "target_compile_definitions":
		if t != nil {
			t.flags.add(parseFlags(c.dir, definitions(values)))
		}
	case "target_compile_options":
		if t != nil {
			t.flags.add(parseFlags(c.dir, values))
		}
	case "target_link_libraries":
		if t != nil {
			c.link(&t.unit, &t.flags, values)
		}
	default:
		c.call(args)
	}
}

// set sets a variable, and the flags that some variables mean.
func (c *cmakeLists) set(name string, values []string) {
	size := 0
	for _, value := range values {
		size += 1 + len(value)
	}
	if size > maxCMakeSize {
		values = nil
	}
	c.vars[name] = values
	switch {
	case name == "CMAKE_CXX_FLAGS" || name == "CMAKE_HIP_FLAGS":
		c.all.add(parseFlags(c.dir, words(strings.Join(values, " "))))
	case (name == "CMAKE_CXX_STANDARD" || name == "CMAKE_HIP_STANDARD") && len(values) == 1:
		c.all.copts = union(c.all.copts, []string{"-std=c++" + values[0]})
	}
}

// setProperty sets a property of sources. Those of other directories do not apply to the targets of the file.
func (c *cmakeLists) setProperty(files []string, name string, values []string, add bool) {
	if slices.Contains(files, "DIRECTORY") {
		return
	}
	if at := slices.Index(files, "TARGET_DIRECTORY"); at >= 0 {
		files = files[:at]
	}
	for _, file := range files {
		src, ok := c.place(file)
		if !ok {
			continue
		}
		of := c.properties[src]
		if of == nil {
			of = map[string][]string{}
			c.properties[src] = of
		}
		if add {
			of[name] = slices.Concat(of[name], values)
		} else {
			of[name] = values
		}
	}
}

// applyProperties sets the flags of the sources of a unit.
func (c *cmakeLists) applyProperties(u *unit) {
	all := u.flags
	for _, src := range u.srcs {
		of := c.properties[src]
		f := parseFlags(c.dir, slices.Concat(words(strings.Join(of["COMPILE_FLAGS"], " ")), of["COMPILE_OPTIONS"], definitions(of["COMPILE_DEFINITIONS"])))
		c.includes(&f, of["INCLUDE_DIRECTORIES"])
		f.copts = slices.Concat(without(all.copts, f.copts), f.copts)
		if _, old := of["HIP_SOURCE_PROPERTY_FORMAT"]; old || slices.Contains(of["LANGUAGE"], "HIP") {
			u.asHIP = append(u.asHIP, src)
			f.cAsHIP = isC(src)
		}
		u.compile([]string{src}, f)
	}
}

// call reads the arguments of a function of the project, such as
// add_benchmark(NAME sort SOURCES main.cu INCLUDE_DIRS ../include).
func (c *cmakeLists) call(args []string) {
	if !slices.Contains(args, "SOURCES") {
		return
	}
	t, keyword := &cmakeTarget{}, ""
	for _, arg := range args {
		switch {
		case arg == strings.ToUpper(arg) && strings.ToLower(arg) != arg && !strings.ContainsAny(arg, "-./"):
			keyword = arg
		case keyword == "NAME":
			t.name = arg
		case keyword == "SOURCES":
			c.sources(t, []string{arg})
		case strings.HasPrefix(keyword, "INCLUDE"):
			c.includes(&t.flags, []string{arg})
		case strings.Contains(keyword, "DEFINITIONS"):
			t.flags.add(parseFlags(c.dir, definitions([]string{arg})))
		case strings.HasPrefix(keyword, "LINK"):
			c.link(&t.unit, &t.flags, []string{arg})
		case strings.HasSuffix(keyword, "OPTIONS") || strings.HasSuffix(keyword, "FLAGS"):
			t.flags.add(parseFlags(c.dir, []string{arg}))
		}
	}
	c.targets = append(c.targets, t)
}

func (c *cmakeLists) target(name string) *cmakeTarget {
	for _, t := range c.targets {
		if t.name == name {
			return t
		}
	}
	return nil
}

// sources adds the sources that exist in the repository.
func (c *cmakeLists) sources(t *cmakeTarget, names []string) {
	for _, name := range names {
		if file, ok := c.place(name); ok && isSource(file) && isFile(c.root, file) {
			t.srcs = union(t.srcs, []string{file})
		}
	}
}

func (c *cmakeLists) includes(f *flags, folders []string) {
	for _, folder := range folders {
		if dir, ok := c.place(folder); ok && !slices.Contains(cmakeKeywords, folder) {
			f.include("", dir)
		}
	}
}

// libraryFile matches the path of a library that is no target.
var libraryFile = regexp.MustCompile(`/lib([^/]+)\.(?:a|so)$`)

// link adds libraries: units, libraries of ROCm and flags.
func (c *cmakeLists) link(u *unit, f *flags, names []string) {
	for _, name := range names {
		file := ""
		if m := libraryFile.FindStringSubmatch(name); m != nil {
			name, file = m[1], m[1]
		}
		switch {
		case strings.HasPrefix(name, "hip::"): // rules for HIP link the runtime
		case strings.HasPrefix(name, "-"):
			f.add(parseFlags(c.dir, []string{name}))
		case rocmLibraryOf(name) != "":
			f.libs = union(f.libs, []string{rocmLibraryOf(name)})
		case strings.HasPrefix(name, "OpenMP::"):
			f.add(parseFlags(c.dir, []string{"-fopenmp"}))
		case strings.HasPrefix(name, "Threads::"):
			f.add(parseFlags(c.dir, []string{"-pthread"}))
		case slices.Contains([]string{"pthread", "m", "dl", "rt", "z", file}, name):
			f.link(name)
		case u != nil:
			u.links = union(u.links, []string{name})
		}
	}
}

// place returns the path in the repository of a name, relative to the directory of the file.
func (c *cmakeLists) place(name string) (file string, ok bool) {
	if at := strings.LastIndex(name, repositoryMark); at >= 0 {
		return inRepository("", name[at+len(repositoryMark):])
	}
	if strings.Contains(name, "$") {
		return "", false
	}
	return inRepository(c.dir, name)
}

// glob sets a variable to the files that patterns name.
func (c *cmakeLists) glob(name string, patterns []string, deep bool) {
	var found []string
	for _, pattern := range patterns {
		place, ok := c.place(pattern)
		if !ok {
			continue
		}
		folders := []string{path.Dir(place)}
		if deep {
			folders = append(folders, foldersBelow(filepath.Join(c.root, filepath.FromSlash(path.Dir(place))), path.Dir(place))...)
		}
		for _, folder := range folders {
			files, _ := filepath.Glob(filepath.Join(c.root, filepath.FromSlash(folder), path.Base(place)))
			for _, file := range files {
				if rel, err := filepath.Rel(c.root, file); err == nil {
					found = append(found, repositoryMark+filepath.ToSlash(rel))
				}
			}
		}
	}
	c.vars[name] = found
}

// foldersBelow returns the directories below a directory, by their path in the repository.
func foldersBelow(dir, rel string) []string {
	var folders []string
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			below := path.Join(rel, entry.Name())
			folders = append(append(folders, below), foldersBelow(filepath.Join(dir, entry.Name()), below)...)
		}
	}
	return folders
}

// definitions returns the flags of definitions, which can have -D.
func definitions(values []string) []string {
	var out []string
	for _, value := range values {
		out = append(out, "-D"+strings.TrimPrefix(value, "-D"))
	}
	return out
}

// cmakeCommands splits a file into its commands.
func cmakeCommands(text string) []cmakeCommand {
	var list []cmakeCommand
	for i := 0; i < len(text); {
		open := strings.IndexAny(text[i:], "(#")
		if open < 0 {
			break
		}
		if text[i+open] == '#' {
			i += open + lineLength(text[i+open:])
			continue
		}
		fields := strings.Fields(text[i : i+open])
		args, n := cmakeArguments(text[i+open+1:])
		if len(fields) > 0 {
			list = append(list, cmakeCommand{strings.ToLower(fields[len(fields)-1]), args})
		}
		i += open + 1 + n
	}
	return list
}

// lineLength returns the length of the comment or line at the start of a text.
func lineLength(text string) int {
	if end := strings.IndexByte(text, '\n'); end >= 0 {
		return end + 1
	}
	return len(text)
}

// cmakeArguments reads arguments up to the closing parenthesis, and returns the length of what
// it read.
func cmakeArguments(text string) (args []string, n int) {
	var arg []byte
	in, depth := false, 0
	flush := func() {
		if in {
			args = append(args, string(arg))
		}
		arg, in = nil, false
	}
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '#':
			flush()
			i += lineLength(text[i:]) - 1
		case b == '"':
			in = true
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' && i+1 < len(text) {
					i++
				}
				arg = append(arg, text[i])
			}
		case b == ' ' || b == '\t' || b == '\n' || b == '\r':
			flush()
		case b == '(':
			flush()
			depth++
		case b == ')':
			flush()
			if depth == 0 {
				return args, i + 1
			}
			depth--
		default:
			arg, in = append(arg, b), true
		}
	}
	flush()
	return args, len(text)
}
