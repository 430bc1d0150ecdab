// Package devicelink plans the device links of a host link: which images are linked
// together, by which command, and with which runtime the results are registered
// (clang/tools/clang-linker-wrapper of LLVM 22 to 24).
//
//	policy.go   the rules that clang-linker-wrapper and offload link follow
//	plan.go     Plan: from images to links
//	command.go  Link.Command: the command of a link
//	pack.go     the results: kinds of offloading, entry IDs, commands that pack them
//	names.go    names of files
//	target.go, container.go  the target of a linked image; images of SPIR-V for Intel
//
// It reads no file and runs no program. Package engine opens the inputs, runs the commands
// with package process, and writes registrations with package register.
package devicelink

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
)

// Input describes a device image for planning. Link.Images has the numbers of those of a link.
type Input struct {
	Triple string
	Arch   string // processor or target ID; "generic" or "" for every processor
	Kinds  offloadbinary.OffloadKind
	// Member reports that the image is in an archive that is not linked whole: it
	// joins links that other images made.
	Member bool
	Name   string // of the file with the image, for messages
}

// Link is one device link: the images that are linked for one target.
type Link struct {
	Triple string
	Arch   string                    // as the image that made the link has it
	Images []int                     // in the order of the link
	Kinds  offloadbinary.OffloadKind // of all images; the result is registered for each
}

// MaxTargets bounds the targets of the images of a plan, for inputs crafted to waste time.
const MaxTargets = 1024

// generic is the arch of images for every processor.
const generic = "generic"

// Options select how images are divided into links.
type Options struct {
	Policy Policy
	// Extract are the archs for which members of archives make links. EveryTarget
	// ignores it.
	Extract []string
}

// Plan plans the device links of images. Every image that is not a member is in at least one
// link. Members join the links that exist, by the rules of the policy.
func Plan(images []Input, opt Options) ([]Link, error) {
	p := &planner{images: images, rules: opt.Policy.rules(), joined: map[target.Device][]int{}}
	if err := p.check(); err != nil {
		return nil, err
	}
	objects, members := p.split()
	p.makeLinks(objects)
	for _, i := range objects {
		p.join(i, p.rules.object)
	}
	p.addMembers(objects, members, opt.Extract)
	if p.rules.inputOrder {
		for l := range p.links {
			slices.Sort(p.links[l].Images)
		}
	}
	return p.links, nil
}

// planner is one call of Plan.
type planner struct {
	images []Input
	rules  rules
	links  []Link
	joined map[target.Device][]int // the links that images for a device join
}

// check rejects images that cannot be planned for.
func (p *planner) check() error {
	targets := map[target.Device]bool{}
	for i := range p.images {
		image := &p.images[i]
		if image.Triple == "" {
			return fmt.Errorf("%s: an image without a triple cannot be linked", image.Name)
		}
		if targets[image.device()] = true; len(targets) > MaxTargets {
			return fmt.Errorf("%s: more than %d targets", image.Name, MaxTargets)
		}
	}
	return nil
}

// split returns the numbers of the images that make links, and of those that only join.
func (p *planner) split() (objects, members []int) {
	for i := range p.images {
		if p.images[i].Member {
			members = append(members, i)
		} else {
			objects = append(objects, i)
		}
	}
	return objects, members
}

// makeLinks makes the links for objects. With rules.specificFirst, it takes the objects in the
// order of the number of settings that their target IDs specify, most first, so that the order
// of the inputs does not decide which links there are.
func (p *planner) makeLinks(objects []int) {
	order := slices.Clone(objects)
	if p.rules.specificFirst {
		slices.SortStableFunc(order, func(a, b int) int {
			return strings.Count(p.images[b].Arch, ":") - strings.Count(p.images[a].Arch, ":")
		})
	}
	seen := map[target.Device]bool{}
	for _, i := range order {
		device := p.images[i].device()
		if seen[device] {
			continue
		}
		seen[device] = true
		if !slices.ContainsFunc(p.links, func(l Link) bool { return p.rules.served(l.device(), device) }) {
			p.makeLink(device)
		}
	}
}

func (p *planner) makeLink(device target.Device) {
	p.links = append(p.links, Link{Triple: device.Triple, Arch: device.Arch})
}

// addMembers adds members to the links, and makes those that extract requests. A member does
// not join links that a later member makes.
func (p *planner) addMembers(objects, members []int, extract []string) {
	linked := map[target.Device]bool{} // devices of objects
	for _, i := range objects {
		linked[p.images[i].device()] = true
	}
	takes := func(link, image target.Device) bool {
		return link == image || p.rules.member(link, image, linked[image])
	}
	clear(p.joined)
	for _, i := range members {
		p.join(i, takes)
		device := p.images[i].device()
		own := slices.ContainsFunc(p.links, func(l Link) bool { return l.device() == device })
		if p.rules.extracts && !own && slices.Contains(extract, device.Arch) {
			p.makeLink(device)
			clear(p.joined)
			p.add(i, len(p.links)-1)
		}
	}
}

// join adds an image to the links for which takes returns true.
func (p *planner) join(i int, takes func(link, image target.Device) bool) {
	device := p.images[i].device()
	joined, known := p.joined[device]
	if !known {
		for l := range p.links {
			if takes(p.links[l].device(), device) {
				joined = append(joined, l)
			}
		}
		p.joined[device] = joined
	}
	for _, l := range joined {
		p.add(i, l)
	}
}

// add adds an image to a link.
func (p *planner) add(image, link int) {
	l := &p.links[link]
	l.Images = append(l.Images, image)
	l.Kinds |= p.images[image].Kinds
}

func (i *Input) device() target.Device { return target.Device{Triple: i.Triple, Arch: i.Arch} }

func (l *Link) device() target.Device { return target.Device{Triple: l.Triple, Arch: l.Arch} }

// Processor returns the arch of a link, "" for every processor.
func (l *Link) Processor() string {
	if l.Arch == generic {
		return ""
	}
	return l.Arch
}

// Name names the target of a link in messages.
func (l *Link) Name() string {
	return strings.TrimSpace(l.Triple + " " + l.Processor())
}

// MixedError reports images of a runtime, such as SYCL, and of another offload kind in one link.
type MixedError struct{ Runtime string }

// Error names the runtime.
func (e *MixedError) Error() string {
	return fmt.Sprintf("images of %s cannot be linked with images of another offload kind", e.Runtime)
}

// Check reports why a link is impossible.
func (l *Link) Check() error {
	for i := range runtimes.Table {
		if r := &runtimes.Table[i]; r.Alone && l.Kinds&r.Kind != 0 && l.Kinds != r.Kind {
			return &MixedError{r.Title}
		}
	}
	if slices.Contains(linkable, target.ParseTriple(l.Triple).Arch) {
		return nil
	}
	return fmt.Errorf("%s linking is not supported", ArchName(l.Triple))
}

// linkable are the architectures that device links are made for.
var linkable = []target.Arch{
	"nvptx", "nvptx64", target.ArchAMDGCN, "x86", "x86_64", "aarch64", "aarch64_be", "ppc64", "ppc64le", "spirv64", "systemz", "loongarch64",
}
