// Prints the tables of docs/validation.md about time. With another file of the same columns as
// argument it prints the rows of that one alone: runs that no number was fitted to.
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>

#include "lockstep/planner/time_validation.h"

int main(int argc, char** argv) try {
  const bool other = argc > 1;
  std::ifstream in(other ? argv[1] : "tests/validation/published_runs.csv");
  std::ostringstream text;
  text << in.rdbuf();
  const auto runs =
      lockstep::planner::timed_runs(lockstep::planner::read_published_rows(text.str()));
  std::cout << (other ? lockstep::planner::time_table(runs)
                      : lockstep::planner::time_validation(runs));
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what();
  return 1;
}
