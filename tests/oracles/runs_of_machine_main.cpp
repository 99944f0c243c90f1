// Prints the tables of docs/validation.md about runs of one machine, from
// tests/validation/machine_runs.csv or the file that is named.
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>

#include "lockstep/planner/machine_runs.h"

int main(int argc, char** argv) try {
  std::ifstream in(argc > 1 ? argv[1] : "tests/validation/machine_runs.csv");
  std::ostringstream text;
  text << in.rdbuf();
  std::cout << lockstep::planner::machine_validation(
      lockstep::planner::read_machine_runs(text.str()));
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what();
  return 1;
}
