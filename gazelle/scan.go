package offload

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// scan contains the properties of a source or header. It does not evaluate conditions of the
// preprocessor: both branches count.
type scan struct {
	includes []include
	kernel   bool // has __global__ functions
	device   bool // has __device__ functions or variables
	portable bool // tests the compiler, or defines __device__ as nothing: C++ compilers also read it
	launch   bool // launches kernels, so it contains host code
	chevrons bool // launches kernels with syntax that requires HIP's compiler
	target   bool // has OpenMP target directives
	main     bool // has a main function
	certain  bool // has one outside of the preprocessor's conditions
	cudaAPI  bool // uses declarations of CUDA's runtime or driver
	hipAPI   bool // uses declarations of HIP's runtime
	loads    bool // loads code objects
	// kernels are the names of the __global__ functions, mentions all names in the file.
	kernels  []string
	mentions map[string]bool
}

// include is an #include directive.
type include struct {
	path  string
	angle bool   // <path> and not "path"
	file  string // the path of the file that contains it, in the repository
	line  int
}

// scanFile reads a file by its path in the repository, once. It returns nil if
// the file cannot be read.
func (l *offload) scanFile(root, file string) *scan {
	if s, ok := l.scans[file]; ok {
		return s
	}
	var s *scan
	if data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file))); err == nil {
		s = scanSource(data)
		for i := range s.includes {
			s.includes[i].file = file
		}
	}
	l.scans[file] = s
	return s
}

// pattern is a regular expression that matches only text with one of its words. To search for the
// words first is many times as fast.
type pattern struct {
	*regexp.Regexp
	words []string
}

func newPattern(expression string, words ...string) pattern {
	return pattern{regexp.MustCompile(expression), words}
}

// matches reports whether a text contains a match.
func (p pattern) matches(text string) bool { return p.possible(text) && p.MatchString(text) }

// possible reports whether a text contains one of the words.
func (p pattern) possible(text string) bool {
	return slices.ContainsFunc(p.words, func(word string) bool { return strings.Contains(text, word) })
}

var (
	includePattern = regexp.MustCompile(`^#\s*include(?:_next)?\s*(?:"([^"]+)"|<([^>]+)>)`)
	pragmaPattern  = regexp.MustCompile(`^#\s*pragma\s+(.*)`)
	kernelPattern  = newPattern(`\b__global__\b`, "__global__")
	devicePattern  = newPattern(`\b__device__\b`, "__device__")
	blankPattern   = newPattern(`^#\s*define\s+__device__\s*$`, "__device__")
	askPattern     = newPattern(`^#\s*(?:el)?if.*\b(?:__HIPCC__|__HIP__|__CUDACC__|__CUDA__|__NVCC__|__device__)\b`, "__HIP", "__CUDA", "__NVCC__", "__device__")
	launchPattern  = newPattern(`\bhipLaunch(?:Cooperative)?Kernel(?:GGL|ExC?)?\b`, "hipLaunch")
	cudaPattern    = newPattern(`\b(?:cuda[A-Z]\w*|cu[A-Z]\w+\s*\()`, "cu")
	hipPattern     = newPattern(`\bhip[A-Z]\w*`, "hip")
	mainPattern    = newPattern(`\b(?:int|auto|void)\s+main\s*\(`, "main")
	globalPattern  = newPattern(`\b__global__\b[^;{}()]*?\b(\w+)\s*\(`, "__global__")
	boundsPattern  = regexp.MustCompile(`\b(?:__launch_bounds__|__attribute__)\s*\((?:[^()]|\([^()]*\))*\)+`)
	namePattern    = regexp.MustCompile(`[A-Za-z_]\w*`)
	modulePattern  = newPattern(`\bhipModuleLoad(?:Data(?:Ex)?)?\b`, "hipModuleLoad")
)

// scanSource scans C, C++ or HIP.
func scanSource(data []byte) *scan {
	s := &scan{}
	var code, statements strings.Builder // with directives, and without
	var certain strings.Builder          // the statements outside of conditions
	depth := 0                           // of conditions
	lines(data, func(l line) {
		for _, pragma := range l.pragmas {
			s.target = s.target || isTarget(pragma)
		}
		text := strings.TrimSpace(l.text)
		if !strings.HasPrefix(text, "#") {
			code.WriteString(l.code)
			code.WriteByte('\n')
			statements.WriteString(l.code)
			statements.WriteByte('\n')
			if depth == 0 {
				certain.WriteString(l.code)
				certain.WriteByte('\n')
			}
			return
		}
		switch directive := strings.TrimSpace(text[1:]); {
		case strings.HasPrefix(directive, "if"):
			depth++
		case strings.HasPrefix(directive, "endif"):
			depth--
		}
		s.portable = s.portable || blankPattern.matches(text) || askPattern.matches(text)
		if m := includePattern.FindStringSubmatch(text); m != nil {
			s.includes = append(s.includes, include{path: path.Clean(m[1] + m[2]), angle: m[2] != "", line: l.number})
		} else if m := pragmaPattern.FindStringSubmatch(text); m != nil {
			s.target = s.target || isTarget(m[1])
		} else {
			code.WriteString(l.code) // a macro can contain a kernel
			code.WriteByte('\n')
		}
	})
	all := code.String()
	s.kernel = kernelPattern.matches(all)
	s.device = devicePattern.matches(statements.String())
	s.chevrons = strings.Contains(all, "<<<")
	s.launch = s.chevrons || launchPattern.matches(all)
	s.findNames(all)
	s.cudaAPI = cudaPattern.matches(all)
	s.hipAPI = hipPattern.matches(all)
	s.loads = modulePattern.matches(all)
	s.main = mainPattern.matches(all)
	s.certain = s.main && mainPattern.matches(certain.String())
	return s
}

// usesHIP reports whether a file calls HIP's runtime or includes its headers.
func (s *scan) usesHIP() bool {
	return s.hipAPI || slices.ContainsFunc(s.includes, func(inc include) bool { return strings.HasPrefix(inc.path, "hip/") })
}

// isCUDA reports whether a file is for nvcc, not for HIP: it includes CUDA's own headers or calls
// its functions, and none of HIP's.
func (s *scan) isCUDA() bool {
	return !s.usesHIP() && (s.cudaAPI || slices.ContainsFunc(s.includes, include.isCUDAHeader))
}

// findNames sets the names of the kernels, and all names if there are launches or kernels.
func (s *scan) findNames(code string) {
	if globalPattern.possible(code) {
		for _, m := range globalPattern.FindAllStringSubmatch(boundsPattern.ReplaceAllString(code, " "), -1) {
			s.kernels = append(s.kernels, m[1])
		}
	}
	if len(s.kernels) == 0 && !s.launch {
		return
	}
	s.mentions = map[string]bool{}
	for _, name := range namePattern.FindAllString(code, -1) {
		s.mentions[name] = true
	}
}

// isTarget reports whether a pragma requests code or data on a device.
func isTarget(pragma string) bool {
	words := strings.FieldsFunc(pragma, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if len(words) < 2 || words[0] != "omp" {
		return false
	}
	// OpenMP 6 also joins the words of a directive with underscores.
	words = strings.Split(strings.Join(words[1:], "_"), "_")
	switch words[0] {
	case "metadirective":
		for _, w := range words[1:] {
			if w == "target" {
				return true
			}
		}
		return false
	case "begin":
		words = words[1:]
	}
	if len(words) > 1 && words[0] == "declare" {
		words = words[1:]
	}
	return len(words) > 0 && words[0] == "target"
}

// line is a logical line: continued lines are joined, and comments are replaced by blanks.
type line struct {
	number  int      // of its first line, from 1
	text    string   // with string literals
	code    string   // with the string literals emptied
	pragmas []string // the texts of its _Pragma operators
}

// lines splits a source into logical lines.
func lines(data []byte, yield func(line)) {
	var text, code []byte
	var pragmas []string
	number, start := 1, 1
	// both appends to both forms of the line. A line begins at its first byte.
	both := func(b ...byte) {
		text = append(text, b...)
		code = append(code, b...)
	}
	flush := func() {
		yield(line{start, string(text), string(code), pragmas})
		text, code, pragmas = text[:0], code[:0], nil
		start = number
	}
	for i := 0; i < len(data); {
		switch b := data[i]; {
		case b == '\n':
			number++
			flush()
			i++
		case continued(data[i:]) > 0:
			i += continued(data[i:])
			number++
		case b == '/' && i+1 < len(data) && data[i+1] == '/':
			for i < len(data) && data[i] != '\n' {
				if n := continued(data[i:]); n > 0 {
					i += n
					number++
				} else {
					i++
				}
			}
		case b == '/' && i+1 < len(data) && data[i+1] == '*':
			comment := data[i:]
			if end := bytes.Index(data[i+2:], []byte("*/")); end >= 0 {
				comment = comment[:end+4]
			}
			number += bytes.Count(comment, []byte("\n"))
			both(' ')
			i += len(comment)
		case b == '"':
			n := stringLength(data[i:], isRaw(code))
			literal := data[i : i+n]
			number += bytes.Count(literal, []byte("\n"))
			if opensPragma(code) {
				pragmas = append(pragmas, strings.ReplaceAll(strings.Trim(string(literal), `"`), "\\\n", ""))
			}
			text = append(text, literal...)
			code = append(code, '"', '"')
			i += n
		case b == '\'' && !inNumber(code):
			n := stringLength(data[i:], false)
			both('\'', '\'')
			i += n
		default:
			both(b)
			i++
		}
	}
	if len(text) > 0 {
		flush()
	}
}

// continued returns the length of a backslash and line end.
func continued(data []byte) int {
	switch {
	case bytes.HasPrefix(data, []byte("\\\n")):
		return 2
	case bytes.HasPrefix(data, []byte("\\\r\n")):
		return 3
	}
	return 0
}

// stringLength returns the length of the string or character literal at the start of data. An
// unterminated literal ends with its line.
func stringLength(data []byte, raw bool) int {
	if raw {
		open := bytes.IndexByte(data, '(')
		if open > 0 && open <= 17 {
			end := append(append([]byte{')'}, data[1:open]...), '"')
			if n := bytes.Index(data[open:], end); n >= 0 {
				return open + n + len(end)
			}
		}
	}
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case data[0]:
			return i + 1
		case '\n':
			return i
		case '\\':
			if n := continued(data[i:]); n > 0 {
				i += n - 1
			} else if i+1 < len(data) && data[i+1] != '\n' {
				i++
			}
		}
	}
	return len(data)
}

var (
	rawPattern    = regexp.MustCompile(`(?:^|[^A-Za-z0-9_])(?:u8|u|U|L)?R$`)
	pragmaOpen    = regexp.MustCompile(`\b_Pragma\s*\(\s*L?$`)
	numberPattern = regexp.MustCompile(`(?:^|[^A-Za-z0-9_'])[0-9][A-Za-z0-9_'.]*$`)
)

// tail returns the end of a line, as long as the patterns require.
func tail(code []byte) []byte { return code[max(0, len(code)-64):] }

func isRaw(code []byte) bool {
	return bytes.HasSuffix(code, []byte("R")) && rawPattern.Match(tail(code))
}
func opensPragma(code []byte) bool {
	return bytes.Contains(tail(code), []byte("_Pragma")) && pragmaOpen.Match(tail(code))
}

// inNumber reports whether a quote after this code is a digit separator.
func inNumber(code []byte) bool { return numberPattern.Match(tail(code)) }
