package devicelink

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
)

// PlanOptions say how the device links of a plan are made.
type PlanOptions struct {
	// WholeArchive makes members of archives count like objects. Without it
	// they are linked only for targets that an object is for.
	WholeArchive bool
	// Clang is the compiler driver that links for all targets.
	Clang string
	Args  []Arg
}

// Arg is an argument for device links.
type Arg struct {
	// Triple is that of the targets it is for, or their processor (gfx90a), or a
	// target ID (gfx90a:xnack+); empty for all.
	Triple string
	Arg    string
}

// isFor reports whether a is for a link.
func (a Arg) isFor(l *Link) bool {
	if a.Triple == "" || a.Triple == l.Triple {
		return true
	}
	wanted, settings := strings.Split(a.Triple, ":"), strings.Split(l.Arch, ":")
	if wanted[0] != settings[0] || l.Arch == "" {
		return false
	}
	for _, setting := range wanted[1:] {
		if !slices.Contains(settings[1:], setting) {
			return false
		}
	}
	return true
}

// Input is an input of the host link: an object, an archive or a shared library.
type Input struct {
	Name    string
	Archive bool
	// Library is the absolute path of an archive or shared library, which device
	// links for CPUs are given too; "" for other inputs.
	Library string
	Images  []InputImage
}

// InputImage is a device image in an Input.
type InputImage struct {
	Triple, Arch string
	Kinds        offloadbinary.OffloadKind
	Size         int64  // bytes
	Member       string // of an archive, "" for others
	Holder       string // the name of the innermost file with the image
}

// Plan is what the device links of a host link do: every target is linked on its
// own and registered with OpenMP or HIP. In contrast to Groups, which follows
// clang-linker-wrapper, a target ID without a setting also takes images that fix
// one, if these have no link of their own.
type Plan struct {
	Links []Link `json:"links"`
}

// Link makes the image for one target.
type Link struct {
	Triple string   `json:"triple"`
	Arch   string   `json:"arch"`
	Kinds  []string `json:"kinds"` // offload kinds that the image is registered for
	// Images are linked in this order.
	Images []LinkedImage `json:"images"`
	// Command is run in a directory with the images under their names.
	Command []string `json:"command"`
	// Output is the name of what Command makes.
	Output string `json:"-"`

	kinds offloadbinary.OffloadKind
}

// LinkedImage is an image from one of the inputs.
type LinkedImage struct {
	Input  string `json:"input"`
	Member string `json:"member,omitempty"` // of an archive
	Arch   string `json:"arch"`
	File   string `json:"file"` // its name in the command
	Size   int64  `json:"size"`
	// From and Number are the index of the input and of the image in it.
	From   int `json:"-"`
	Number int `json:"-"`
}

// NewPlan groups images by target. Every target that an object has an image for
// is linked, from all images that LLVM's rules let into one link with it and
// that can serve it: code for every processor, or for every setting of one, goes
// into the link for a certain one, not the other way round. The order of the
// inputs is the order of the images and nothing else.
func NewPlan(inputs []Input, opt PlanOptions) (*Plan, error) {
	plan := new(Plan)
	var all []LinkedImage
	seen, linked := map[target.Device]bool{}, map[target.Device]bool{}
	for from := range inputs {
		input := &inputs[from]
		for number := range input.Images {
			image := &input.Images[number]
			if image.Triple == "" {
				return nil, fmt.Errorf("%s: an image without a triple cannot be linked", input.Name)
			}
			all = append(all, LinkedImage{
				Input: input.Name, Member: image.Member, Arch: image.Arch, Size: image.Size,
				File: stagedName(len(all), image), From: from, Number: number,
			})
			device := image.device()
			if seen[device] = true; len(seen) > MaxGroups {
				return nil, fmt.Errorf("%s: more than %d targets", input.Name, MaxGroups)
			}
			if !linked[device] && (!input.Archive || opt.WholeArchive) {
				linked[device] = true
				if !slices.ContainsFunc(plan.Links, func(l Link) bool { return l.device().Equivalent(device) }) {
					plan.Links = append(plan.Links, Link{Triple: image.Triple, Arch: image.Arch})
				}
			}
		}
	}
	for i := range plan.Links {
		link := &plan.Links[i]
		joins := map[target.Device]bool{}
		for device := range seen {
			joins[device] = link.takes(device, linked[device])
		}
		for _, linked := range all {
			image := &inputs[linked.From].Images[linked.Number]
			if joins[image.device()] {
				link.Images = append(link.Images, linked)
				link.kinds |= image.Kinds
			}
		}
		if link.kinds != 0 {
			link.Kinds = strings.Split(link.kinds.String(), ",")
		}
		link.Output = fmt.Sprintf("linked%d.img", i)
		link.Command = link.command(inputs, opt)
	}
	// The order of bundles and offload binaries, LLVM's where it has one.
	slices.SortStableFunc(plan.Links, func(a, b Link) int {
		if a.Triple != b.Triple {
			return -strings.Compare(a.Triple, b.Triple)
		}
		return -strings.Compare(a.Arch, b.Arch)
	})
	return plan, nil
}

func (image *InputImage) device() target.Device {
	return target.Device{Triple: image.Triple, Arch: image.Arch}
}

func (l *Link) device() target.Device { return target.Device{Triple: l.Triple, Arch: l.Arch} }

// takes reports whether images for a device go into the link: whether LLVM's
// rules let them, and what they are made for is true of the link's target. Where
// it need not be true, since the link's target leaves a setting open, they go in
// if there is no link of their own that they could go into.
func (l *Link) takes(device target.Device, linked bool) bool {
	own := l.device()
	if own.Equivalent(device) {
		return true
	}
	if own.Arch == generic || !own.LinksWith(device) {
		return false
	}
	settings := strings.Split(own.Arch, ":")
	for _, setting := range strings.Split(device.Arch, ":")[1:] {
		if !slices.Contains(settings[1:], setting) {
			return !linked
		}
	}
	return true
}

// stagedName names the file of an image for its link.
func stagedName(number int, image *InputImage) string {
	stem := strings.TrimSuffix(filepath.Base(image.Holder), filepath.Ext(image.Holder))
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._+-:", r) {
			return r
		}
		return '_'
	}, fmt.Sprintf("%s-%s-%s", stem, image.Triple, image.Arch))
	const longest = 200
	return fmt.Sprintf("image%d-%s.o", number, name[:min(len(name), longest)])
}

// command returns the command line of a link, as clang-linker-wrapper has it.
func (l *Link) command(inputs []Input, opt PlanOptions) []string {
	triple := target.ParseTriple(l.Triple)
	amd := triple.Arch == target.ArchAMDGCN
	nvidia, spirv := isNVPTX(l.Triple), isSPIRV(l.Triple)
	args := []string{opt.Clang, "--no-default-config", "-o", l.Output, "--target=" + l.Triple}
	switch {
	case l.Arch == "" || l.Arch == generic:
	case amd:
		args = append(args, "-mcpu="+l.Arch)
	default:
		args = append(args, "-march="+l.Arch)
	}
	if amd {
		args = append(args, "-flto")
	}
	if !nvidia && !spirv {
		args = append(args, "-Wl,--no-undefined")
	}
	for _, image := range l.Images {
		args = append(args, image.File)
	}
	if !amd && !nvidia && !spirv {
		// The device is a CPU: the image is a shared library of the host's.
		args = append(args, "-Wl,-Bsymbolic", "-shared")
		for i := range inputs {
			if inputs[i].Library != "" {
				args = append(args, inputs[i].Library)
			}
		}
	}
	for _, arg := range opt.Args {
		if arg.isFor(l) {
			args = append(args, arg.Arg)
		}
	}
	return args
}

// Name names the target in messages.
func (l *Link) Name() string {
	if l.Arch == "" || l.Arch == generic {
		return l.Triple
	}
	return l.Triple + " " + l.Arch
}

// HIPBundle returns the targets of a bundle of linked images, that of the empty
// host entry first.
func HIPBundle(links []*Link) ([]target.ID, error) {
	ids := []string{hostEntry}
	for _, link := range links {
		triple := target.RuntimeTriple(link.Triple)
		fields := strings.Count(triple, "-") + 1 // entry IDs have four, the last of which may be empty
		ids = append(ids, "hip-"+triple+strings.Repeat("-", max(5-fields, 1))+link.Arch)
	}
	return target.CheckTargets(ids, target.Parse, target.Bundling)
}

// Of returns the links whose images are registered for a kind.
func (p *Plan) Of(kind offloadbinary.OffloadKind) []*Link {
	var links []*Link
	for i := range p.Links {
		if p.Links[i].kinds&kind != 0 {
			links = append(links, &p.Links[i])
		}
	}
	return links
}

// Check refuses what cannot be registered before anything runs.
func (p *Plan) Check() error {
	if links := p.Of(offloadbinary.HIP); links != nil {
		if _, err := HIPBundle(links); err != nil {
			return err
		}
	}
	for i := range p.Links {
		link := &p.Links[i]
		var reason string
		switch first := link.Images[0]; {
		case link.kinds == 0:
			reason = fmt.Sprintf("the images for %s, such as that of %s, have no offload kind", link.Name(), first.Input)
		case link.kinds&offloadbinary.CUDA != 0:
			reason = fmt.Sprintf("the images for %s are for CUDA: make a fat binary with NVIDIA's fatbinary, and register it with offload register", link.Name())
		case link.kinds&^(offloadbinary.OpenMP|offloadbinary.HIP) != 0:
			reason = fmt.Sprintf("the images for %s are of kind %s; OpenMP and HIP can be linked", link.Name(), link.kinds)
		}
		if reason != "" {
			return errors.New(reason)
		}
	}
	return nil
}
