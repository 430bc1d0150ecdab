"""Flags of GCC that clang rejects as unknown."""

# From a comparison of all options of GCC 15 with those of clang 22, without options that clang accepts or ignores without
# an error. Entries that end with - are prefixes of several options.
_UNKNOWN = {
    "f": """
        abi- ada-spec-parent aggressive-loop-optimizations all-virtual allocation-dce allow-store-data-races
        alt-external-templates analyzer analyzer- argument- asan-shadow-offset assume-sane-operators-new-delete
        auto-inc-dec auto-profile-inlining avoid-store-forwarding bit-tests branch-probabilities branch-target-
        btr-bb-exclusive building-libgcc callgraph-info canon-prefix-map canonical-system-headers
        check-data-deps check-pointer-bounds checking chkp- cilkplus code-hoisting combine-stack-adjustments
        compare- concepts concepts- cond-mismatch condition-coverage conserve- constexpr-cache-depth
        constexpr-fp-except constexpr-loop-limit constexpr-ops-limit contract- contracts contracts-
        cprop-registers crossjumping cse- cx-method dbg- dce debug-cpp declone-ctor-dtor deduce-init-list
        delayed-branch delete-dead-exceptions dep-fusion deps- devirtualize-at-ltrans diagnostics-add-output
        diagnostics-all-candidates diagnostics-column- diagnostics-escape-format diagnostics-generate-patch
        diagnostics-json-formatting diagnostics-minimum-margin-width diagnostics-path-format
        diagnostics-plain-output diagnostics-set-output diagnostics-show-caret diagnostics-show-context
        diagnostics-show-cwe diagnostics-show-event-links diagnostics-show-highlight-colors
        diagnostics-show-labels diagnostics-show-nesting diagnostics-show-nesting- diagnostics-show-path-depths
        diagnostics-show-rules diagnostics-text-art-charset diagnostics-urls dse dump-ada- dump-analyzer
        dump-analyzer- dump-final-insns dump-go-spec dump-internal-locations dump-noaddr dump-passes
        dump-unnumbered dump-unnumbered-links early-inlining eliminate-dwarf2-dups emit-class-debug-always
        emit-struct- enforce-eh-specs enum-int-equiv ext- extern-tls-init external-templates fold-
        forward-propagate fp-int-builtin-inexact function-cse fuse-ops-with-volatile-access gcse-lm
        gnat-encodings gnu-tm gnu-unique graphite graphite-identity guess-branch-probability guiding-decls
        handle-exceptions hardcfr- harden- hardened hoist-adjacent-loads honor-std huge-objects if-
        immediate-escalation implicit-constexpr implicit-inline-templates indirect-inlining
        inhibit-size-directive inline-atomics inline-limit- inline-stringops instrument-functions-exclude-
        instrument-functions-once ipa-bit-cp ipa-cp- ipa-icf ipa-icf- ipa-matrix-reorg ipa-modref ipa-profile
        ipa-pta ipa-pure-const ipa-ra ipa-reference ipa-reference-addressable ipa-reorder-for-locality ipa-sra
        ipa-stack-alignment ipa-strict-aliasing ipa-struct-reorg ipa-vrp ira- isolate- keep-gc-roots-live
        keep-static-functions labels-ok lang- large-source-files late-combine-instructions leading-underscore
        lifetime-dse limit-function-alignment link-libatomic live- loop-block loop-flatten loop-nest-optimize
        loop-optimize loop-parallelize-all loop-strip-mine loop-unroll-and-jam lra-remat lto-compression-level
        lto-incremental lto-incremental-cache-size lto-odr-type-merging lto-partition lto-report lto-report-wpa
        lto-toplevel-asm-heuristics malloc-dce max-include-depth mem-report-wpa merge-debug-strings
        min-function-alignment module-implicit-inline module-lazy module-mapper module-only
        module-version-ignore modules-ts move- mudflapir multiflags name-mangling-version- new-abi
        new-inheriting-ctors new-ttp-matching nonansi-builtins nonnull-objects nothrow-opt offload-abi
        offload-abi-host-opts offload-options openacc-dim openmp-target-simd-clone opt- optimize-crc
        optimize-register-move optimize-strlen optional-diags partial-inlining path- pch-deps peephole peephole2
        permitted-flt-eval-methods post-ipa-mem-report pre-ipa-mem-report predictive-commoning pretty-templates
        printf-return-value profile-abs-path profile-info-section profile-note profile-partial-training
        profile-prefix- profile-reorder-functions profile-report profile-reproducible random-seed
        range-for-ext-temps ree reflection regmove reorder-blocks- reorder-functions repo report-bug
        require-return-statement rerun- reschedule-modulo-scheduled-loops sanitize-sections
        sched-critical-path-heuristic sched-dep-count-heuristic sched-group-heuristic sched-last-insn-heuristic
        sched-pressure sched-rank-heuristic sched-spec sched-spec- sched-stalled- sched-verbose sched2-
        schedule-fusion search-include-path section-anchors sel- selective- self-test shrink- simd-cost-model
        speculatively-call-stored-functions split-ivs-in-unroller split-loops split-paths split-wide- squangle
        ssa- stack-check stack-limit stack-limit- stack-protector-explicit stack-reuse stdarg-opt store-merging
        strict-prototype strict-volatile-bitfields strong-eval-order strub sync-libcalls this-is-variable
        thread-jumps time-report-details toplevel-reorder track-macro-expansion trampoline-impl trampolines
        tree-bit-ccp tree-builtin-call-dce tree-ccp tree-ch tree-coalesce- tree-copy-prop tree-copyrename
        tree-cselim tree-dominator-opts tree-dse tree-forwprop tree-fre tree-loop- tree-lrs
        tree-parallelize-loops tree-partial-pre tree-phiprop tree-pre tree-pta tree-reassoc tree-scev-cprop
        tree-sink tree-slsr tree-sra tree-store- tree-switch-conversion tree-tail-merge tree-vect-loop-version
        tree-vectorizer-verbose unconstrained-commons unreachable-traps unroll-completely-grow-size
        use-cxa-get-exception-ptr var- vect-cost-model version-loops-for-strides vpt vtable- vtv- weak
        wide-exec-charset xref zee zero-init-padding-bits
""",
    "g": """
        as- btf coff coff1 coff2 coff3 ctf describe-dies inline-points internal-reset-location-views prune-btf
        stabs stabs+ statement-frontiers toggle variable-location-views vms xcoff xcoff+
""",
    "m": """
        128bit-long-double 8bit-idiv 96bit-long-double abm accumulate-outgoing-args address-mode align-data
        align-stringops android avx256- avx512bmm bionic branch-cost call-ms2sysv-xlogues cet-switch cld default
        direct-extern-access dispatch-scheduler dump-tune-features fancy-math-387 fentry- force- fp-ret-in-387
        fused-madd hle incoming-stack-boundary indirect-branch indirect-branch-register
        inline-stringops-dynamically instrument-return intel-syntax manual-endbr memcpy-strategy memset-strategy
        mitigate-rop move-max musl mwait needed noreturn-no-callee-saved-registers partial-vector-fp-math pc32
        pc64 pc80 pcommit prefer-avx128 preferred-stack-boundary push-args record-return relax-cmpxchg-loop sse5
        sseregparm store-max stringop-strategy stv tune-ctrl unroll-only-small-loops veclibabi vect8-ret-in-mem
""",
}

def _sorted_out(text):
    words = [word for word in text.replace("\n", " ").split(" ") if word]
    return struct(
        beginnings = tuple([word for word in words if word.endswith("-")]),
        names = {word: True for word in words if not word.endswith("-")},
    )

_BY_LETTER = {letter: _sorted_out(text) for letter, text in _UNKNOWN.items()}

def is_gcc_only(flag):
    """Reports whether clang rejects a flag because only GCC has it.

    Args:
      flag: a string.

    Returns:
      a bool.
    """
    unknown = _BY_LETTER.get(flag[1:2]) if flag.startswith("-") else None
    if not unknown:
        return False
    name = flag[2:].removeprefix("no-").partition("=")[0]
    return name in unknown.names or name.startswith(unknown.beginnings)
