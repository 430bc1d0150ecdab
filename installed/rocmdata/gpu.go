package rocmdata

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
)

// GPU returns the GPU that a file is for, by its path: a target ID such as gfx942 or gfx90a:xnack+, or the
// processors of a family with an x for each digit that differs, such as gfx11xx. It returns "" for other
// files, also for those with data for all GPUs, such as the fallback catalogues of Tensile. The path uses
// slashes; the library of the file is found by its directories and its name:
//
//   - .../library/TensileLibrary_lazy_gfx942.dat, .../library/gfx942/...: rocBLAS, hipBLASLt, hipSPARSELt
//   - .../miopen/db/gfx942130.kdb, libMIOpenCKKernels_gfx942.so: MIOpen
//   - .../aotriton.images/amd-gfx11xx/...: AOTriton
//   - rocfft_kernel_cache_gfx90a.db: rocFFT
//   - libdevice_conv_operations_gfx942.a: Composable Kernel
//   - .../engines/arch_content/.../gfx942/...: plugins of hipDNN
func GPU(name string) string {
	name = filepath.ToSlash(name)
	dir, base := path.Split(name[strings.LastIndexByte(name, '!')+1:])
	dirs := strings.Split(strings.TrimSuffix(dir, "/"), "/")
	for _, find := range []func(dirs []string, base string) string{tensileGPU, miopenGPU, aotritonGPU, nameGPU, pluginGPU} {
		if gpu := find(dirs, base); gpu != "" {
			return gpu
		}
	}
	return ""
}

// gpuDir returns the GPU that all files in a directory are for. The name of the directory is the
// processor, with its mode after a hyphen: gfx942, gfx90a-xnack+.
func gpuDir(name string) string {
	processor, mode, _ := strings.Cut(name, "-xnack")
	if !target.KnownProcessor(processor) || !strings.HasPrefix(processor, "gfx") {
		return ""
	}
	switch mode {
	case "":
		return processor
	case "+", "-":
		return processor + ":xnack" + mode
	}
	return ""
}

// tensileGPU finds the GPU of a file of Tensile.
func tensileGPU(dirs []string, base string) string {
	at := slices.Index(dirs, "library")
	if at < 0 {
		return ""
	}
	if at+1 < len(dirs) {
		if gpu := gpuDir(dirs[at+1]); gpu != "" {
			return gpu
		}
	}
	if !isTensileCode(base) && path.Ext(base) != ".dat" {
		return ""
	}
	return CodeTarget(base)
}

// miopenGPU finds the GPU of a database of MIOpen.
func miopenGPU(dirs []string, base string) string {
	if n := len(dirs); n < 2 || dirs[n-2] != "miopen" || dirs[n-1] != "db" || !strings.HasPrefix(base, "gfx") {
		return ""
	}
	if !slices.ContainsFunc([]string{".kdb", ".db", ".db.txt", ".fdb.txt", ".model"}, func(end string) bool { return strings.HasSuffix(base, end) }) {
		return ""
	}
	return databaseProcessor(base)
}

// aotritonGPU finds the GPU or family of an archive of AOTriton.
func aotritonGPU(dirs []string, _ string) string {
	at := slices.Index(dirs, aotritonImages)
	if at < 0 || at+1 >= len(dirs) {
		return ""
	}
	gpu, ok := strings.CutPrefix(dirs[at+1], "amd-")
	if !ok || !isPattern(gpu) {
		return ""
	}
	return gpu
}

// isPattern reports whether a name is that of a processor or of a family.
func isPattern(name string) bool {
	return strings.HasPrefix(name, "gfx") && slices.ContainsFunc(target.Processors(), func(p string) bool { return InFamily(p, name) })
}

// InFamily reports whether a processor is in a family, whose name has an x for each digit that differs. A
// processor is the only one in the family of its name.
func InFamily(processor, family string) bool {
	if len(processor) != len(family) {
		return false
	}
	for i := range len(family) {
		if family[i] != processor[i] && (family[i] != 'x' || i < len("gfx")) {
			return false
		}
	}
	return true
}

// nameGPU finds the GPU of a file whose name ends in a processor.
func nameGPU(_ []string, base string) string {
	for _, form := range []struct{ begin, end string }{
		{"rocfft_kernel_cache_", ".db"},
		{"libMIOpenCK", ".so"}, {"MIOpenCK", ".dll"},
		{"libdevice_conv_operations_", ".a"}, {"device_conv_operations_", ".lib"},
	} {
		stem, ok := strings.CutPrefix(base, form.begin)
		if !ok {
			continue
		}
		stem, version, ok := strings.Cut(stem, form.end)
		if !ok || version != "" && version[0] != '.' {
			continue
		}
		at := strings.LastIndex(stem, "gfx")
		if at < 0 || at > 0 && stem[at-1] != '_' {
			continue
		}
		processor, _, _ := strings.Cut(stem[at:], "_")
		if target.KnownProcessor(processor) {
			return processor
		}
	}
	return ""
}

// pluginGPU finds the GPU of a file of a plugin of hipDNN.
func pluginGPU(dirs []string, _ string) string {
	at := slices.Index(dirs, "arch_content")
	if at < 1 || dirs[at-1] != "engines" {
		return ""
	}
	for _, dir := range dirs[at+1:] {
		if gpu := gpuDir(dir); gpu != "" {
			return gpu
		}
	}
	return ""
}
