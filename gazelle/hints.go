package offload

import (
	"path"
	"slices"
	"strings"
)

// hints is what build files of other tools beside the sources of a directory say. They are read as
// text and never run.
type hints struct {
	file  string // the file that they come from, by its path in the repository
	units []unit
	// flags apply to the sources of the directory that are in no unit.
	flags flags
	// cuda is true if the file compiles with nvcc only.
	cuda bool
	// complete is true if the file lists all sources that are compiled.
	complete bool
	// unread are the parts of the file that only running it would reveal, such as $(shell …).
	unread []string
}

// unit is a program or library that a build file describes.
type unit struct {
	name string // the name of its rule; "" for the name of its source
	// program is the name of the program that a rule of a Makefile links. It names the rule if
	// several programs have the same main function.
	program string
	// srcs are its sources, by their path in the repository.
	srcs  []string
	flags flags
	// links are the names of the units that it links.
	links []string
	// hip is true if hipcc links it, so that its .cu sources are HIP; asHIP are further sources that
	// are compiled as HIP.
	hip   bool
	asHIP []string
	// own are the copts of each source, as far as they are known.
	own map[string][]string
}

// compile adds the flags with which sources are compiled.
func (u *unit) compile(sources []string, f flags) {
	u.flags.add(f)
	if u.own == nil {
		u.own = map[string][]string{}
	}
	for _, src := range sources {
		u.own[src] = f.copts
	}
}

// split returns the flags of the rule for a unit, and its sources whose own copts differ from
// those of the rule, in groups with the same copts. main is the source with the main function, ""
// without one. The C sources of the rule can have other copts than the others. Sources whose
// device code is linked together stay together.
func (u *unit) split(main string) (f flags, parts []*unit) {
	f = u.flags
	if u.flags.rdc {
		return f, nil
	}
	c, cKnown := u.usual(main, true)
	cxx, cxxKnown := u.usual(main, false)
	for _, src := range u.srcs {
		copts, known := u.own[src]
		base := cxx
		if u.isC(src) {
			base = c
		}
		if !known || sameSet(copts, base) {
			continue
		}
		at := slices.IndexFunc(parts, func(part *unit) bool { return sameSet(part.flags.copts, copts) })
		if at < 0 {
			part := &unit{flags: u.flags}
			part.flags.copts, part.flags.linkopts = copts, nil
			at, parts = len(parts), append(parts, part)
		}
		parts[at].srcs = append(parts[at].srcs, src)
	}
	switch {
	case cKnown && cxxKnown:
		f.copts = slices.DeleteFunc(slices.Clone(cxx), func(opt string) bool { return !slices.Contains(c, opt) })
		f.cxxopts, f.conlyopts = without(cxx, f.copts), without(c, f.copts)
	case cKnown:
		f.copts = c
	case cxxKnown:
		f.copts = cxx
	}
	return f, parts
}

// usual returns the copts of the main source or, if that is not of the language, of most of the
// sources that are.
func (u *unit) usual(main string, c bool) (copts []string, known bool) {
	most := 0
	for _, src := range u.srcs {
		own, ok := u.own[src]
		if !ok || u.isC(src) != c {
			continue
		}
		if src == main {
			return own, true
		}
		count := 0
		for _, other := range u.srcs {
			if otherCopts, ok := u.own[other]; ok && u.isC(other) == c && sameSet(otherCopts, own) {
				count++
			}
		}
		if count > most {
			copts, known, most = own, true, count
		}
	}
	return copts, known
}

// isC reports whether a source is compiled as C.
func (u *unit) isC(src string) bool { return isC(src) && !u.flags.cAsHIP }

// differ reports whether the unit has sources with different copts.
func (u *unit) differ() bool {
	var first []string
	for i, src := range u.srcs {
		if i == 0 {
			first = u.own[src]
		} else if copts, known := u.own[src]; known && !sameSet(copts, first) {
			return true
		}
	}
	return false
}

// without returns the values of a list that are not in another.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(value string) bool { return slices.Contains(other, value) })
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// flags are the parts of command lines that rules have attributes for.
type flags struct {
	includes []string // directories of the repository, in search order
	copts    []string
	// cxxopts and conlyopts are in no command line: they are what split finds.
	cxxopts, conlyopts []string
	linkopts           []string
	libs               []string // names of libraries (-l) of ROCm
	rdc                bool     // device code calls functions of other sources
	cAsHIP             bool     // sources of C are compiled as HIP
}

// add adds the flags of other.
func (f *flags) add(other flags) {
	f.includes = union(f.includes, other.includes)
	f.copts = union(f.copts, other.copts)
	f.linkopts = union(f.linkopts, other.linkopts)
	f.libs = union(f.libs, other.libs)
	f.rdc = f.rdc || other.rdc
	f.cAsHIP = f.cAsHIP || other.cAsHIP
}

// union returns a list with the values that it does not have yet. It does not change the list, which
// others can share.
func union(list, values []string) []string {
	list = slices.Clip(list)
	for _, value := range values {
		if !slices.Contains(list, value) {
			list = append(list, value)
		}
	}
	return list
}

// Flags whose value is the next word.
var flagsWithValue = []string{"-o", "-x", "-MF", "-MT", "-MQ", "-Xlinker", "-Xclang", "-Xarch_device", "-Xarch_host", "-mllvm", "-include", "-arch", "-target", "-framework"}

// Flags that rules, settings or Bazel set, or that do not change what is compiled.
var ignoredFlags = []string{
	"-c", "-S", "-E", "-v", "-g", "-s", "-w", "-MD", "-MMD", "-MP", "-M", "-MM", "-pipe", "-shared", "-static", "-fPIC", "-fpic", "-fPIE", "-fpie", "-pie",
	"-no-pie", "-fgpu-rdc", "-fno-gpu-rdc", "-rdc=true", "-dc", "-lamdhip64", "-lhip_hcc", "-lstdc++", "-lc", "-save-temps", "--save-temps", "-fno-diagnostics-color", "-",
}

// parseFlags reads the words of a command line that is run in a directory of the repository.
func parseFlags(dir string, words []string) flags {
	var f flags
	for i := 0; i < len(words); i++ {
		word := words[i]
		value := ""
		if i+1 < len(words) {
			value = words[i+1]
		}
		switch {
		case word == "-fgpu-rdc" || word == "-rdc=true" || word == "-dc":
			f.rdc = true
		case word == "-x" && value == "hip" || word == "-xhip":
			f.cAsHIP = f.cAsHIP || slices.ContainsFunc(words, isC)
		case slices.Contains(ignoredFlags, word):
		case word == "-I" || word == "-isystem" || word == "-iquote" || word == "-idirafter":
			f.include(dir, value)
			i++
		case strings.HasPrefix(word, "-I"):
			f.include(dir, word[2:])
		case strings.HasPrefix(word, "-isystem"):
			f.include(dir, strings.TrimPrefix(word, "-isystem"))
		case word == "-D" || word == "-U":
			f.copts = append(f.copts, word+value)
			i++
		case slices.Contains(flagsWithValue, word):
			i++
		case word == "-fopenmp":
			f.copts = append(f.copts, word) // hip_library links its runtime
		case word == "-pthread":
			f.copts = append(f.copts, word)
			f.linkopts = append(f.linkopts, word)
		case word == "-l":
			f.link(value)
			i++
		case strings.HasPrefix(word, "-l"):
			f.link(word[2:])
		case word == "-O" || strings.HasPrefix(word, "-O") && len(word) <= len("-Ofast"):
			f.copts = append(slices.DeleteFunc(f.copts, func(o string) bool { return strings.HasPrefix(o, "-O") }), word)
		case strings.HasPrefix(word, "-W"), strings.HasPrefix(word, "-g"), strings.HasPrefix(word, "-L"), strings.HasPrefix(word, "--offload-arch"), strings.HasPrefix(word, "--rocm-path"), strings.HasPrefix(word, "--amdgpu-target"), strings.HasPrefix(word, "-fuse-ld"), strings.HasPrefix(word, "-march="), strings.HasPrefix(word, "-mtune="):
			// The toolchain and the settings choose these.
		case strings.HasPrefix(word, "-D"), strings.HasPrefix(word, "-U"), strings.HasPrefix(word, "-std="), strings.HasPrefix(word, "-f"), strings.HasPrefix(word, "-m"):
			if !slices.Contains(f.copts, word) {
				f.copts = append(f.copts, word)
			}
		}
	}
	for i, opt := range f.copts {
		f.copts[i] = escapeOption(opt)
	}
	return f
}

// escapeOption writes a word of a command line for copts, which Bazel expands and splits.
func escapeOption(word string) string {
	word = strings.ReplaceAll(word, "$", "$$")
	if strings.ContainsAny(word, " \t\"'\\") {
		word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// include adds a directory that the compiler searches, if it is in the repository.
func (f *flags) include(dir, folder string) {
	if rel, ok := inRepository(dir, folder); ok && folder != "" {
		f.includes = union(f.includes, []string{rel})
	}
}

// link adds a library by the name that -l has.
func (f *flags) link(name string) {
	if rocmLibraryOf(name) != "" {
		f.libs = union(f.libs, []string{rocmLibraryOf(name)})
	} else if name != "" && !slices.Contains(ignoredFlags, "-l"+name) {
		f.linkopts = union(f.linkopts, []string{"-l" + name})
	}
}

// ROCm's libraries by the names with which they are linked, and by the first directory or the name
// of the headers that belong to no directory.
var (
	rocmLibraries = []string{
		"hipblas", "hipblaslt", "hipcub", "hipdnn", "hipfft", "hiprand", "hiprtc", "hipsolver", "hipsparse", "hipsparselt", "hiptensor", "migraphx", "rccl",
		"rocalution", "rocblas", "rocdecode", "rocfft", "rocjpeg", "rocprim", "rocrand", "rocsolver", "rocsparse", "roctracer", "rocwmma", "miopen", "amd_comgr",
		"hsa", "half", "rocthrust", "composable_kernel", "hipblas-common", "rocm_smi", "amd_smi",
	}
	rocmNames = map[string]string{
		"thrust": "rocthrust", "ck": "composable_kernel", "MIOpen": "miopen", "hsa-runtime64": "hsa", "rocm_smi64": "rocm_smi", "roctx64": "roctracer",
		"hiprand_kernel": "hiprand", "rocrand_kernel": "rocrand", "hip::hipblas": "hipblas", "roc::rocblas": "rocblas",
	}
)

// rocmLibraryOf returns the library of ROCm with a name, "" if it is none.
func rocmLibraryOf(name string) string {
	if _, plain, ok := strings.Cut(name, "::"); ok {
		name = plain
	}
	if library, ok := rocmNames[name]; ok {
		return library
	}
	if slices.Contains(rocmLibraries, name) {
		return name
	}
	return ""
}

// rocmLibraryFor returns the library of ROCm that has a header, "" if it is none.
func rocmLibraryFor(header string) string {
	if folder, _, ok := strings.Cut(header, "/"); ok {
		return rocmLibraryOf(folder)
	}
	return rocmLibraryOf(strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(header, ".hpp"), ".h"), ".cuh"))
}

// CUDA's own headers: those of the toolkit, by name, and those in its directories.
var (
	cudaHeaders = []string{
		"builtin_types.h", "channel_descriptor.h", "cooperative_groups.h", "crt/host_defines.h", "cuComplex.h", "cublas.h", "cublasLt.h", "cublasXt.h", "cublas_api.h", "cublas_v2.h",
		"cuda.h", "cudaGL.h", "cudaProfiler.h", "cuda_awbarrier.h", "cuda_bf16.h", "cuda_device_runtime_api.h", "cuda_fp16.h", "cuda_fp8.h", "cuda_gl_interop.h",
		"cuda_occupancy.h", "cuda_pipeline.h", "cuda_pipeline_primitives.h", "cuda_profiler_api.h", "cuda_runtime.h", "cuda_runtime_api.h", "cuda_texture_types.h",
		"cuda_vdpau_interop.h", "cudnn.h", "cufft.h", "cufftXt.h", "cufile.h", "cupti.h", "curand.h", "curand_kernel.h", "cusolverDn.h", "cusolverMg.h", "cusolverRf.h",
		"cusolverSp.h", "cusparse.h", "cusparseLt.h", "cusparse_v2.h", "cutensor.h", "device_launch_parameters.h", "mma.h", "nccl.h", "npp.h", "nvToolsExt.h", "nvjpeg.h", "nvml.h",
		"nvrtc.h", "nvrtcs.h", "nvshmem.h", "nvshmemx.h", "optix.h", "sm_20_atomic_functions.h", "texture_fetch_functions.h",
	}
	cudaFolders = []string{"cooperative_groups/", "cub/", "cuda/", "cutlass/", "cute/", "nvtx3/"}
)

// isCUDAHeader reports whether an include names one of CUDA's own headers.
func (inc include) isCUDAHeader() bool {
	if slices.Contains(cudaHeaders, inc.path) {
		return true
	}
	return inc.angle && slices.ContainsFunc(cudaFolders, func(folder string) bool { return strings.HasPrefix(inc.path, folder) })
}

// words splits a command line as a shell does, without expanding anything.
func words(text string) []string {
	var list []string
	var word []byte
	in, quote := false, byte(0)
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quote == 0 && (b == ' ' || b == '\t' || b == '\n' || b == '\r'):
			if in {
				list = append(list, string(word))
			}
			word, in = nil, false
		case quote == 0 && (b == '"' || b == '\''):
			quote, in = b, true
		case b == quote && quote != 0:
			quote = 0
		case b == '\\' && quote != '\'' && i+1 < len(text) && (quote == 0 || text[i+1] == '"' || text[i+1] == '\\'):
			i++
			word, in = append(word, text[i]), true
		default:
			word, in = append(word, b), true
		}
	}
	if in {
		list = append(list, string(word))
	}
	return list
}

// Extensions of sources, in the order in which a source is looked for by its stem.
var sourceExtensions = []string{".hip", ".cu", ".cpp", ".cc", ".cxx", ".c", ".C", ".c++"}

func isC(name string) bool { return path.Ext(name) == ".c" }

func isSource(name string) bool { return slices.Contains(sourceExtensions, path.Ext(name)) }

// Extensions of headers that rules accept in hdrs.
var headerExtensions = []string{".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".inl", ".ipp", ".tcc"}

func isHeader(name string) bool { return slices.Contains(headerExtensions, path.Ext(name)) }
