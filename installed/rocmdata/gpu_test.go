package rocmdata

import (
	"strings"
	"testing"
)

func TestGPU(t *testing.T) {
	for name, want := range map[string]string{
		"lib/rocblas/library/TensileLibrary_lazy_gfx942.dat":                         "gfx942",
		"lib/rocblas/5/library/TensileLibrary_Type_DD_fallback_gfx90a-xnack+.hsaco":  "gfx90a:xnack+",
		"lib/rocblas/5/library/TensileLibrary_Type_DD_fallback.dat":                  "",
		"lib/hipblaslt/library/hipblasltExtOpLibrary.dat":                            "",
		"lib/hipblaslt/library/TensileManifest.txt":                                  "",
		"lib/rocblas/library/gfx942/TensileManifest.txt":                             "gfx942",
		"lib/rocblas/library/gfx90a-xnack-/TensileLibrary_Type_DD_fallback.dat":      "gfx90a:xnack-",
		"library/include/gfx942.h":                                                   "",
		"a.whl!torch/lib/hipblaslt/library/Kernels.so-000-gfx1201.hsaco":             "gfx1201",
		"share/miopen/db/gfx942130.kdb":                                              "gfx942",
		"share/miopen/db/gfx1030_36.HIP.fdb.txt":                                     "gfx1030",
		"share/miopen/db/readme.txt":                                                 "",
		"lib/libMIOpenCKGroupedConv_gfx942.so":                                       "gfx942",
		"lib/libMIOpenCKGroupedConv_gfx942.so.1":                                     "gfx942",
		"lib/libMIOpen.so.1.0":                                                       "",
		"torch/lib/aotriton.images/amd-gfx11xx/flash/attn_fwd/kernel.aks2":           "gfx11xx",
		"torch/lib/aotriton.images/amd-gfx120x/flash/attn_fwd/kernel.aks2":           "gfx120x",
		"torch/lib/aotriton.images/amd-gfx942/flash/k.zip":                           "gfx942",
		"torch/lib/aotriton.images/nvidia/flash/k.zip":                               "",
		"lib/rocfft/rocfft_kernel_cache_gfx90a.db":                                   "gfx90a",
		"lib/rocfft/rocfft_kernel_cache.db":                                          "",
		"lib/libdevice_conv_operations_gfx942.a":                                     "gfx942",
		"lib/libdevice_conv_operations_gfx942_xnackp.a":                              "gfx942",
		"lib/libdevice_conv_operations.a":                                            "",
		"lib/hipdnn_plugins/engines/arch_content/hip-kernel-provider/gfx1201/a.json": "gfx1201",
		"share/doc/gfx942/readme":                                                    "",
	} {
		t.Run(name, func(t *testing.T) {
			if got := GPU(name); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestInFamily(t *testing.T) {
	for _, test := range []struct {
		processor, family string
		want              bool
	}{
		{"gfx1100", "gfx11xx", true}, {"gfx1201", "gfx120x", true}, {"gfx942", "gfx942", true},
		{"gfx1201", "gfx11xx", false}, {"gfx90a", "gfx11xx", false}, {"gfx900", "gfx90a", false},
	} {
		if got := InFamily(test.processor, test.family); got != test.want {
			t.Errorf("%s in %s: %t", test.processor, test.family, got)
		}
	}
}

// FuzzGPU checks that a GPU is always a part of the path, with its mode after a colon.
func FuzzGPU(f *testing.F) {
	for _, name := range []string{"lib/rocblas/library/gfx90a-xnack+/a.dat", "aotriton.images/amd-gfx11xx/a", "miopen/db/gfx942130.kdb", "library/gfx", "a!b/library/gfx942.co", "libMIOpenCK_gfx942.so.1"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		gpu := GPU(name)
		if gpu == "" {
			return
		}
		if processor, _, _ := strings.Cut(gpu, ":"); !strings.HasPrefix(gpu, "gfx") || !strings.Contains(name, processor) {
			t.Errorf("%q: got %q", name, gpu)
		}
	})
}
