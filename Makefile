# Every target sets up what it needs. `make` alone lists them; docs/guides/building.md tells more.
RELEASE := build/release
BIN     := $(RELEASE)/bin
SETUP   := tools/setup.sh
MINUTES ?= 10
PREFIX  ?= /usr/local
SECONDS_PER_TARGET ?= 60
# ninja would run two more than there are cores: 9 % slower, with these headers, on two cores.
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)

.PHONY: help setup configure programs build demo style test python-backend test-oracles validate-gpt test-sanitize \
        bench-peers validate-plans bench-python bench-peers-json bench-comm bench-checkpoint bench-compare bench-death fuzz soak cuda gpu-check install package test-slurm clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what is missing: Debian packages, LibTorch in ~/.cache/lockstep
	@$(SETUP)

configure: setup
	@test -f $(RELEASE)/build.ninja || cmake --preset release >/dev/null

programs: configure
	@test -x $(BIN)/lockstep-worker || echo 'building the programs: about 4 minutes on 2 cores'
	@cmake --build --preset release --target lockstep lockstep-worker

build: configure ## set up, then build programs, libraries and tests in build/release
	@cmake --build --preset release

demo: programs ## train ResNet-20 on Fashion-MNIST with two ranks
	@$(BIN)/lockstep train examples/fashion/run.toml --nproc-per-node 2

style: configure ## print the style numbers: lengths of files and functions, comments, tests
	@cmake --build --preset release --target architecture_test
	@$(BIN)/architecture_test --gtest_brief=1 --gtest_filter='StyleNumbers.*'

test: build style ## set up, build and run every test
	@ctest --preset release

python-backend: configure ## build lockstep_c10d, a backend for torch.distributed, into the Python of the oracles
	@$(SETUP) --python
	@cmake --preset release >/dev/null # finds a Python that was just made
	@cmake --build --preset release --target lockstep_c10d
	@tools/with_oracles.sh tools/install_python_backend.py $(RELEASE)

test-oracles: programs python-backend ## compare with the real PyTorch, safetensors and numpy; complete words in real shells
	@$(SETUP) --oracles --shells
	@cmake --build --preset release --target oracle_programs
	@tools/with_oracles.sh tests/oracles/run.py --programs $(BIN)

validate-gpt: programs ## examples/gpt_bible as it is, beside PyTorch: bits per byte (about 15 minutes)
	@$(SETUP) --oracles
	@PATH=$(CURDIR)/$(BIN):$$PATH tools/with_oracles.sh tests/oracles/gpt_test.py

test-sanitize: setup ## tests of the LibTorch-free folders under ASan+UBSan and TSan, and a LibTorch subset
	@tools/sanitize.sh

bench-peers: programs ## time this library beside PyTorch DDP, in one run on this machine
	@$(SETUP) --oracles
	@benchmarks/bench_peers.py

validate-plans: programs ## train 52 small runs and compare memory, bytes sent and time with their plans (about 16 minutes)
	@benchmarks/validate_plans.py

bench-python: python-backend ## time the backend for torch.distributed beside Gloo: all_reduce, DDP and FSDP2 steps
	@tools/with_oracles.sh benchmarks/peers/python_backend.py

bench-peers-json: programs ## the same, as JSON lines
	@$(SETUP) --oracles
	@benchmarks/bench_peers.py --json

COMM_BENCH = $(BIN)/lockstep bench comm --ranks 2,4 --op all_reduce,reduce_scatter,all_gather

bench-comm: programs ## time collectives of this host beside Open MPI, then beside Gloo
	@$(SETUP) --mpi
	@cmake --preset release >/dev/null # finds an mpicc that was just installed
	@cmake --build --preset release --target lockstep-mpi-peer
	@$(COMM_BENCH) --against mpi
	@$(BIN)/lockstep bench comm --ranks 2,4 --symmetric --sizes 256Ki,1Mi,4Mi,16Mi,64Mi --against mpi
	@$(COMM_BENCH) --against gloo

bench-checkpoint: programs ## time saves and loads of 1 GiB beside torch.distributed.checkpoint, and what the disk gives
	@$(SETUP) --oracles
	@PATH="$${LOCKSTEP_DEPS:-$$HOME/.cache/lockstep}/oracle-venv/bin:$$PATH" \
	  $(BIN)/lockstep bench checkpoint --against torch --rounds 5

bench-compare: configure ## what it costs that ranks of a Gloo group compare the collectives they enter
	@cmake --build --preset release --target gloo_compare
	@$(BIN)/gloo_compare

bench-death: configure ## from kill -9 of a rank with 4 GiB resident to the others' error
	@cmake --build --preset release --target death_notice
	@$(BIN)/death_notice 4

fuzz: ## libFuzzer on every parser, SECONDS_PER_TARGET=60 each
	@$(SETUP) --fuzz
	@tools/fuzz.sh $(SECONDS_PER_TARGET)

SEQUENCES = LOCKSTEP_TEST_SEQUENCES=10000 LOCKSTEP_TEST_SEED=$$(date +%s) $(BIN)/lockstep_comm_shm_test

MEMBERSHIP = LOCKSTEP_TEST_JOBS=10000 LOCKSTEP_TEST_LARGE_JOBS=20 LOCKSTEP_TEST_SEED=$$(date +%s) \
             $(BIN)/lockstep_rendezvous_test

BAD_CABLE = LOCKSTEP_TEST_BAD_CABLE_S=300 $(BIN)/fault_test

soak: programs ## 10,000 random sequences of collectives, as many jobs of simulated hosts, 5 minutes of a bad network, kills for MINUTES=10
	@cmake --build --preset release --target lockstep_comm_shm_test lockstep_rendezvous_test fault_test
	@$(SEQUENCES) --gtest_brief=1 --gtest_filter='Sequences.*'
	@$(MEMBERSHIP) --gtest_brief=1 --gtest_filter='Simulator.*Jobs*'
	@$(BAD_CABLE) --gtest_brief=1 --gtest_filter='TwoHostsOverABadCable.*'
	@tools/soak.py --minutes $(MINUTES)

cuda: ## build the programs with NCCL for GPUs in build/cuda (fetches 1.8 GB of CUDA libraries)
	@$(SETUP) --cuda
	@cmake --preset cuda >/dev/null
	@cmake --build --preset cuda --target lockstep lockstep-worker

gpu-check: ## on a machine with a GPU: build preset cuda, run the tests labelled gpu
	@tools/gpu_check.sh

install: configure ## build and install programs, libraries and the CMake package under PREFIX=/usr/local
	@cmake --build --preset release --target installed
	@cmake --install $(RELEASE) --prefix $(PREFIX)

package: configure ## pack the program as build/package/*.deb and a wheel, which need no LibTorch
	@cmake --build --preset release --target lockstep-portable
	@tools/make_package.py $(RELEASE) build/package

test-slurm: programs ## start Debian's Slurm on this machine in a scratch folder, train under srun and sbatch
	@$(SETUP) --slurm
	@tests/slurm/run.py --programs $(BIN)

clean: ## remove everything that was built
	@rm -rf build
