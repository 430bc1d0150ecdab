package offload

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// makefile is a Makefile, evaluated as far as its text allows. Nothing is run: $(shell …) and
// variables of the environment are empty.
type makefile struct {
	root, dir string // of the repository, and of the Makefile in it
	vars      map[string]variable
	rules     []makeRule
	ofTargets []targetVariable
	unread    []string
	depth     int // of expansions and included files
	size      int // of all values so far, which bounds the evaluation
}

type variable struct {
	value    string
	expanded bool
}

type makeRule struct {
	targets, prerequisites []string
	recipe                 []string
}

// targetVariable is an assignment for some targets only: TARGETS: NAME += VALUE.
type targetVariable struct {
	targets               []string
	name, operator, value string
}

// Limits for Makefiles that refer to themselves or grow without end.
const (
	maxMakeDepth = 32
	maxMakeSize  = 1 << 22
)

// makefileNames are the names that make looks for, in its order.
var makefileNames = []string{"GNUmakefile", "makefile", "Makefile"}

// readMakefile returns what a Makefile of a directory says, nil if it cannot be read.
func readMakefile(root, dir, name string) *hints {
	m := &makefile{root: root, dir: dir, vars: map[string]variable{
		"CC": {value: "cc"}, "CXX": {value: "c++"}, "MAKE": {value: "make"}, "CURDIR": {value: "."}, "PWD": {value: "."}, "RM": {value: "rm -f"},
	}}
	if !m.read(path.Join(dir, name)) {
		return nil
	}
	h := &hints{file: path.Join(dir, name)}
	compilers := map[string]bool{}
	for _, r := range m.rules {
		if unit, compiler, ok := m.program(r); ok {
			compilers[compiler] = true
			if compiler != "nvcc" {
				h.units = append(h.units, unit)
				h.flags.add(unit.flags)
			}
		}
	}
	h.cuda = len(h.units) == 0 && (compilers["nvcc"] || m.names("nvcc")) && !m.names("hipcc")
	h.flags.linkopts, h.flags.libs = nil, nil
	h.unread = m.unread
	return h
}

// names reports whether a variable has a compiler as a word.
func (m *makefile) names(compiler string) bool {
	for _, v := range m.vars {
		if slices.ContainsFunc(strings.Fields(v.value), func(word string) bool { return path.Base(word) == compiler }) {
			return true
		}
	}
	return false
}

// read evaluates a file, by its path in the repository.
func (m *makefile) read(file string) bool {
	if m.depth > maxMakeDepth {
		return false
	}
	m.depth++
	defer func() { m.depth-- }()
	data, err := os.ReadFile(filepath.Join(m.root, filepath.FromSlash(file)))
	if err != nil {
		return false
	}
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	text = regexp.MustCompile(`\\\n[ \t]*`).ReplaceAllString(text, " ")
	var conditions []bool // of the open conditionals
	taken := func() bool { return !slices.Contains(conditions, false) }
	var current []int // the rules to which recipe lines belong
	define := false
	for line := range strings.SplitSeq(text, "\n") {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case define:
			define = word != "endef"
		case strings.HasPrefix(line, "\t") && len(current) > 0:
			if taken() && m.conditional(word) == "" {
				for _, i := range current {
					m.rules[i].recipe = append(m.rules[i].recipe, line[1:])
				}
				continue
			}
			fallthrough
		case m.conditional(word) != "":
			conditions = m.branch(conditions, m.conditional(word), strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), word)), rest)
		case !taken():
		case word == "define":
			define = true
		default:
			current = m.statement(withoutComment(line), current)
		}
	}
	return true
}

// conditional returns the keyword of a conditional, "" if the word is none.
func (m *makefile) conditional(word string) string {
	word, _, _ = strings.Cut(word, "(")
	if slices.Contains([]string{"ifeq", "ifneq", "ifdef", "ifndef", "else", "endif"}, word) {
		return word
	}
	return ""
}

// branch returns the open conditionals after a line with a keyword.
func (m *makefile) branch(open []bool, keyword, condition, rest string) []bool {
	switch keyword {
	case "endif":
		return open[:max(0, len(open)-1)]
	case "else":
		if len(open) == 0 {
			return open
		}
		was := open[len(open)-1]
		open[len(open)-1] = !was
		if next, after, _ := strings.Cut(rest, " "); m.conditional(next) != "" && !was {
			open[len(open)-1] = m.holds(m.conditional(next), after)
		}
		return open
	}
	return append(open, m.holds(keyword, condition))
}

// holds evaluates a condition.
func (m *makefile) holds(keyword, condition string) bool {
	condition = strings.TrimSpace(withoutComment(condition))
	if keyword == "ifdef" || keyword == "ifndef" {
		_, set := m.vars[m.expand(condition)]
		return set == (keyword == "ifdef")
	}
	condition = strings.TrimPrefix(strings.TrimPrefix(condition, "ifeq"), "ifneq")
	a, b := "", ""
	if strings.HasPrefix(condition, "(") {
		a, b = splitArguments(strings.TrimSuffix(condition[1:], ")"))
	} else if parts := regexp.MustCompile(`^(?:"([^"]*)"|'([^']*)')\s*(?:"([^"]*)"|'([^']*)')`).FindStringSubmatch(condition); parts != nil {
		a, b = parts[1]+parts[2], parts[3]+parts[4]
	}
	return (strings.TrimSpace(m.expand(a)) == strings.TrimSpace(m.expand(b))) == (keyword == "ifeq")
}

// splitArguments splits at the first comma that is in no parentheses.
func splitArguments(text string) (string, string) {
	depth := 0
	for i, r := range text {
		switch r {
		case '(', '{':
			depth++
		case ')', '}':
			depth--
		case ',':
			if depth == 0 {
				return text[:i], text[i+1:]
			}
		}
	}
	return text, ""
}

// withoutComment removes the comment of a line.
func withoutComment(line string) string {
	for i := 0; i < len(line); i++ {
		if line[i] == '#' && (i == 0 || line[i-1] != '\\') {
			return line[:i]
		}
	}
	return line
}

var assignment = regexp.MustCompile(`^\s*(?:(?:export|override|private)\s+)*([^\s:#=+?!]+)\s*(\+=|:{1,3}=|\?=|!=|=)\s*(.*)$`)

// statement evaluates an assignment, a rule or an include, and returns the rules to which the
// next recipe lines belong.
func (m *makefile) statement(line string, current []int) []int {
	if strings.TrimSpace(line) == "" {
		return current
	}
	if a := assignment.FindStringSubmatch(line); a != nil {
		m.assign(m.expand(a[1]), a[2], a[3])
		return nil
	}
	if fields := strings.Fields(line); slices.Contains([]string{"include", "-include", "sinclude"}, fields[0]) {
		for _, name := range strings.Fields(m.expand(strings.Join(fields[1:], " "))) {
			if file, ok := inRepository(m.dir, name); ok {
				m.read(file)
			}
		}
		return nil
	}
	targets, rest, isRule := cutRule(line)
	if !isRule {
		return nil
	}
	if a := assignment.FindStringSubmatch(rest); a != nil {
		m.ofTargets = append(m.ofTargets, targetVariable{strings.Fields(m.expand(targets)), m.expand(a[1]), a[2], a[3]})
		return nil
	}
	prerequisites, recipe, inline := strings.Cut(rest, ";")
	prerequisites = strings.TrimPrefix(prerequisites, ":")
	if pattern, more, static := strings.Cut(prerequisites, ":"); static && !strings.Contains(pattern, "$") {
		prerequisites = more
		if !strings.Contains(targets, "%") {
			targets = pattern // a static pattern rule: TARGETS: PATTERN: PREREQUISITES
		}
	}
	r := makeRule{targets: strings.Fields(m.expand(targets)), prerequisites: strings.Fields(m.expand(prerequisites))}
	if inline {
		r.recipe = []string{recipe}
	}
	m.rules = append(m.rules, r)
	return []int{len(m.rules) - 1}
}

// cutRule splits a rule at the colon that is in no variable.
func cutRule(line string) (targets, rest string, ok bool) {
	depth := 0
	for i, r := range line {
		switch r {
		case '(', '{':
			depth++
		case ')', '}':
			depth--
		case ':':
			if depth == 0 {
				return line[:i], line[i+1:], true
			}
		}
	}
	return "", "", false
}

func (m *makefile) assign(name, operator, value string) {
	old, set := m.vars[name]
	switch operator {
	case "!=":
		m.unread = append(m.unread, name+" != "+value)
		return
	case "?=":
		if set && name != "CC" && name != "CXX" {
			return
		}
		m.vars[name] = variable{value: value}
	case "+=":
		if old.expanded {
			value = m.expand(value)
		}
		m.vars[name] = variable{value: strings.TrimSpace(old.value + " " + value), expanded: old.expanded}
	case "=":
		m.vars[name] = variable{value: value}
	default:
		m.vars[name] = variable{value: m.expand(value), expanded: true}
	}
}

// expand replaces the references to variables and the calls of functions.
func (m *makefile) expand(text string) string {
	if !strings.Contains(text, "$") {
		return text
	}
	if m.depth > maxMakeDepth || m.size > maxMakeSize {
		return ""
	}
	m.depth++
	defer func() { m.depth-- }()
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		i++
		switch text[i] {
		case '$':
			out.WriteByte('$')
		case '(', '{':
			n := closing(text[i:])
			if n < 0 {
				return out.String() // no end
			}
			out.WriteString(m.reference(text[i+1 : i+n]))
			i += n
		default:
			out.WriteString(m.value(text[i : i+1]))
		}
	}
	m.size += out.Len() + len(text)
	return out.String()
}

// closing returns the index of the parenthesis that closes the first one, or -1.
func closing(text string) int {
	open, end, depth := text[0], byte(')'), 0
	if open == '{' {
		end = '}'
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case open:
			depth++
		case end:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

func (m *makefile) value(name string) string {
	v := m.vars[name]
	if v.expanded {
		return v.value
	}
	return m.expand(v.value)
}

// reference evaluates the inside of $(…).
func (m *makefile) reference(text string) string {
	if name, rest, ok := strings.Cut(text, " "); ok {
		if value, known := m.function(name, strings.TrimLeft(rest, " \t")); known {
			return value
		}
	}
	if name, replacement, ok := strings.Cut(text, ":"); ok {
		if from, to, ok := strings.Cut(replacement, "="); ok {
			from, to = m.expand(from), m.expand(to)
			if !strings.Contains(from, "%") {
				from, to = "%"+from, "%"+to
			}
			return replaceWords(m.value(m.expand(name)), from, to)
		}
	}
	return m.value(m.expand(text))
}

// function evaluates the functions of make that lists of sources and flags use.
func (m *makefile) function(name, text string) (value string, known bool) {
	var args []string
	for rest := text; ; {
		first, after := splitArguments(rest)
		args = append(args, first)
		if len(after) == 0 && len(first) == len(rest) || len(args) == 3 {
			break
		}
		rest = after
	}
	arg := func(i int) string {
		if i < len(args) {
			return m.expand(args[i])
		}
		return ""
	}
	each := func(list string, f func(string) string) string {
		var out []string
		for _, word := range strings.Fields(list) {
			if word = f(word); word != "" {
				out = append(out, word)
			}
		}
		return strings.Join(out, " ")
	}
	matches := func(word string) bool {
		return slices.ContainsFunc(strings.Fields(arg(0)), func(p string) bool { _, ok := matchPattern(p, word); return ok })
	}
	switch name {
	case "shell":
		m.unread = append(m.unread, "$(shell "+text+")")
		return "", true
	case "error", "warning", "info", "eval", "call", "origin", "flavor", "value":
		return "", true
	case "subst":
		return strings.ReplaceAll(arg(2), arg(0), arg(1)), true
	case "patsubst":
		return replaceWords(arg(2), strings.TrimSpace(arg(0)), strings.TrimSpace(arg(1))), true
	case "strip", "abspath", "realpath":
		return strings.Join(strings.Fields(m.expand(text)), " "), true
	case "sort":
		list := strings.Fields(m.expand(text))
		slices.Sort(list)
		return strings.Join(slices.Compact(list), " "), true
	case "filter":
		return each(arg(1), func(w string) string {
			if matches(w) {
				return w
			}
			return ""
		}), true
	case "filter-out":
		return each(arg(1), func(w string) string {
			if matches(w) {
				return ""
			}
			return w
		}), true
	case "firstword", "lastword":
		list := strings.Fields(m.expand(text))
		if len(list) == 0 {
			return "", true
		}
		if name == "firstword" {
			return list[0], true
		}
		return list[len(list)-1], true
	case "notdir":
		return each(m.expand(text), path.Base), true
	case "dir":
		return each(m.expand(text), func(w string) string { return path.Dir(w) + "/" }), true
	case "basename":
		return each(m.expand(text), func(w string) string { return strings.TrimSuffix(w, path.Ext(w)) }), true
	case "suffix":
		return each(m.expand(text), path.Ext), true
	case "addprefix":
		return each(arg(1), func(w string) string { return arg(0) + w }), true
	case "addsuffix":
		return each(arg(1), func(w string) string { return w + arg(0) }), true
	case "wildcard":
		return each(m.expand(text), m.wildcard), true
	case "if":
		if strings.TrimSpace(arg(0)) != "" {
			return arg(1), true
		}
		return arg(2), true
	case "or":
		for i := range args {
			if value := arg(i); strings.TrimSpace(value) != "" {
				return value, true
			}
		}
		return "", true
	case "foreach":
		if len(args) < 3 {
			return "", true
		}
		loop := strings.TrimSpace(arg(0))
		old, set := m.vars[loop]
		value := each(arg(1), func(w string) string {
			m.vars[loop] = variable{value: w, expanded: true}
			return m.expand(args[2])
		})
		if delete(m.vars, loop); set {
			m.vars[loop] = old
		}
		return value, true
	}
	return "", false
}

// wildcard returns the files of the repository that a pattern names.
func (m *makefile) wildcard(pattern string) string {
	if _, ok := inRepository(m.dir, pattern); !ok {
		return ""
	}
	base := filepath.Join(m.root, filepath.FromSlash(m.dir))
	found, _ := filepath.Glob(filepath.Join(base, filepath.FromSlash(pattern)))
	var names []string
	for _, file := range found {
		if rel, err := filepath.Rel(base, file); err == nil {
			names = append(names, filepath.ToSlash(rel))
		}
	}
	return strings.Join(names, " ")
}

// replaceWords replaces the words that match a pattern.
func replaceWords(list, from, to string) string {
	var out []string
	for _, word := range strings.Fields(list) {
		if stem, ok := matchPattern(from, word); ok {
			word = strings.Replace(to, "%", stem, 1)
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

// matchPattern returns what the % of a pattern stands for in a word.
func matchPattern(pattern, word string) (stem string, ok bool) {
	before, after, has := strings.Cut(pattern, "%")
	if !has {
		return "", pattern == word
	}
	if len(word) < len(before)+len(after) || !strings.HasPrefix(word, before) || !strings.HasSuffix(word, after) {
		return "", false
	}
	return word[len(before) : len(word)-len(after)], true
}

// compilers are the names of compiler drivers, without the parts before and after them.
var compilers = regexp.MustCompile(`^(?:.*[-/])?(hipcc|nvcc|amdclang(?:\+\+)?|clang(?:\+\+)?|cc|c\+\+|gcc|g\+\+|mpi(?:cc|cxx|c\+\+|CC|icc|icpc)|CC|icc|icpc|icpx)(?:-[0-9.]+)?(?:\.bin)?$`)

// commands returns the commands of a rule's recipe that call a compiler, each with the name of
// the compiler first.
func (m *makefile) commands(r makeRule, target, stem string) [][]string {
	prerequisites := make([]string, len(r.prerequisites))
	for i, p := range r.prerequisites {
		prerequisites[i] = strings.Replace(p, "%", stem, 1)
	}
	first := ""
	if len(prerequisites) > 0 {
		first = prerequisites[0]
	}
	for name, value := range map[string]string{"@": target, "<": first, "^": strings.Join(prerequisites, " "), "+": strings.Join(prerequisites, " "), "*": stem} {
		m.vars[name] = variable{value: value, expanded: true}
	}
	var found [][]string
	for _, line := range r.recipe {
		for part := range strings.SplitSeq(m.expand(line), ";") {
			for command := range strings.SplitSeq(part, "&&") {
				list := words(strings.TrimLeft(strings.TrimSpace(command), "@-+ "))
				if at := slices.IndexFunc(list, compilers.MatchString); at >= 0 && at < 4 {
					list = list[at:]
					list[0] = compilers.FindStringSubmatch(list[0])[1]
					found = append(found, list)
				}
			}
		}
	}
	return found
}

// enter sets the variables of a target. leave restores the others.
func (m *makefile) enter(target string) (leave func()) {
	old := m.vars
	m.vars = maps.Clone(old)
	for _, v := range m.ofTargets {
		for _, pattern := range v.targets {
			if _, ok := matchPattern(path.Clean(pattern), path.Clean(target)); ok {
				m.assign(v.name, v.operator, v.value)
			}
		}
	}
	return func() { m.vars = old }
}

// program returns the program that a rule links, and its compiler.
func (m *makefile) program(r makeRule) (u unit, compiler string, ok bool) {
	for _, target := range r.targets {
		if strings.Contains(target, "%") || slices.Contains([]string{".o", ".obj", ".a", ".so"}, path.Ext(target)) {
			continue
		}
		defer m.enter(target)()
		for _, command := range m.commands(r, target, "") {
			if slices.Contains(command, "-c") || slices.Contains(command, "-E") || slices.Contains(command, "-M") {
				continue
			}
			u.flags.add(parseFlags(m.dir, command))
			u.flags.copts = nil // those of the compilations
			var linked unit
			for i, word := range command[1:] {
				if archive := m.archive(word); archive != "" {
					word = archive // its sources are part of the program
				}
				if command[i] != "-o" {
					m.input(&linked, word, map[string]bool{})
				}
			}
			m.compile(&linked, command, slices.DeleteFunc(slices.Clone(command), func(word string) bool { return !isSource(word) }))
			if len(linked.srcs) > 0 {
				u.program = path.Base(target)
				u.srcs = union(u.srcs, linked.srcs)
				u.flags.add(linked.flags)
				for src, copts := range linked.own {
					u.compile([]string{src}, flags{copts: copts})
				}
				u.flags.linkopts = slices.DeleteFunc(u.flags.linkopts, func(opt string) bool { return m.archive(opt) != "" })
				compiler, ok = command[0], true
				u.hip = u.hip || compiler == "hipcc"
				if slices.Contains(command, "nvcc") {
					compiler = "nvcc"
				}
			}
		}
	}
	return u, compiler, ok
}

// archive returns the archive of another rule that a flag -l names, or "".
func (m *makefile) archive(word string) string {
	name, ok := strings.CutPrefix(word, "-l")
	for _, r := range m.rules {
		for _, target := range r.targets {
			if ok && path.Base(target) == "lib"+name+".a" {
				return target
			}
		}
	}
	return ""
}

// input adds a file of a link to a unit: a source, or what an object or an archive is made of.
func (m *makefile) input(u *unit, name string, seen map[string]bool) {
	if seen[name] || strings.HasPrefix(name, "-") {
		return
	}
	seen[name] = true
	if isSource(name) {
		m.source(u, name)
		return
	}
	if ext := path.Ext(name); ext != ".o" && ext != ".obj" && ext != ".a" {
		return
	}
	for _, match := range m.matching(name) {
		if m.made(u, match.rule, name, match.stem, seen) {
			return
		}
	}
	// Another rule can name the source, or make's own rules compile it.
	for _, r := range m.rules {
		if slices.Contains(r.targets, name) {
			for _, p := range r.prerequisites {
				if isSource(p) && stemOf(p) == stemOf(name) && m.source(u, p) {
					return
				}
			}
		}
	}
	for _, ext := range sourceExtensions {
		if m.source(u, strings.TrimSuffix(name, path.Ext(name))+ext) {
			return
		}
	}
}

// match is a rule that can make a file, and what the % of its pattern stands for.
type match struct {
	rule makeRule
	stem string
}

// matching returns the rules with recipes that can make a file in the order in which make tries
// them: a rule with the name, then patterns, the shortest stem first.
func (m *makefile) matching(name string) []match {
	var found []match
	for _, r := range m.rules {
		for _, target := range r.targets {
			if stem, ok := matchPattern(path.Clean(target), path.Clean(name)); ok && len(r.recipe) > 0 {
				found = append(found, match{r, stem})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b match) int { return len(a.stem) - len(b.stem) })
	return found
}

// made adds what a rule makes an object or archive of.
func (m *makefile) made(u *unit, r makeRule, name, stem string, seen map[string]bool) bool {
	defer m.enter(name)()
	var compiled []string
	for _, command := range m.commands(r, name, stem) {
		for i, word := range command[1:] {
			if command[i] != "-o" && isSource(word) && m.source(u, word) {
				compiled = append(compiled, word)
			}
		}
		if len(compiled) > 0 {
			m.compile(u, command, compiled)
			return true
		}
	}
	found := false
	for _, p := range r.prerequisites {
		p = strings.Replace(p, "%", stem, 1)
		if isSource(p) {
			found = m.source(u, p) || found
		} else if path.Ext(name) == ".a" {
			before := len(u.srcs)
			m.input(u, p, seen)
			found = found || len(u.srcs) > before
		}
	}
	return found
}

// compile adds the flags of a command that compiles sources.
func (m *makefile) compile(u *unit, command, sources []string) {
	if len(sources) == 0 {
		return
	}
	placed := make([]string, len(sources))
	for i, src := range sources {
		placed[i] = path.Join(m.dir, src)
	}
	u.compile(placed, parseFlags(m.dir, command))
}

// source adds a source that exists in the repository.
func (m *makefile) source(u *unit, name string) bool {
	file, ok := inRepository(m.dir, name)
	if !ok || !isFile(m.root, file) {
		return false
	}
	u.srcs = union(u.srcs, []string{file})
	return true
}
