// What a fuzz target says of its input beside not breaking.
#pragma once

namespace lockstep::fuzz {

/// Whether the last input was taken for what it should be. The replay program holds it to
/// tests/fuzz/accepted.txt for every file of the corpus, so that files stay what they are made for
/// when a format changes.
inline bool accepted = false;

}  // namespace lockstep::fuzz
