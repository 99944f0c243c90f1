#include "lockstep/rendezvous/job_secret.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::rendezvous {
namespace {

const std::string kHex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

Secret counting() {
  Secret secret{};
  for (std::size_t i = 0; i < secret.size(); ++i) secret[i] = static_cast<std::uint8_t>(i);
  return secret;
}

std::string raw(const Secret& secret) { return {secret.begin(), secret.end()}; }

std::string private_file(const test::ScratchFolder& folder, const std::string& bytes) {
  std::string path = folder.write("secret", bytes);
  ::chmod(path.c_str(), 0600);
  return path;
}

TEST(JobSecret, IsReadFromAFileInBytesOrHexDigits) {
  const test::ScratchFolder folder;
  for (const auto& bytes : {kHex, kHex + "\n", kHex + "\r\n", raw(counting())}) {
    EXPECT_EQ(load_secret({private_file(folder, bytes), {}}), counting());
  }
}

TEST(JobSecret, OfAnyOtherFormIsRefused) {
  const test::ScratchFolder folder;
  for (const auto& bytes : {std::string(), kHex.substr(1), kHex + "0", kHex.substr(1) + "g",
                            kHex + "\n\n", raw(counting()) + "x", std::string(1 << 20, 'a')}) {
    const Problem problem = test::problem_of<UsageError>([&] {
      (void)load_secret({private_file(folder, bytes), {}});
    });
    EXPECT_EQ(problem.code, "LS-3061");
    EXPECT_NE(problem.fix.find("openssl rand -hex 32"), std::string::npos);
  }
}

TEST(JobSecret, ThatOthersMayReadIsRefusedWithTheCommandThatClosesIt) {
  const test::ScratchFolder folder;
  const std::string path = private_file(folder, kHex);
  for (const mode_t mode : {0604U, 0620U, 0601U}) {
    ::chmod(path.c_str(), mode);
    const auto named = test::problem_of<UsageError>([&] { (void)load_secret({path, {}}); });
    EXPECT_TRUE(named.fix.starts_with("chmod 600 " + path)) << named.fix;
    (void)test::problem_of<EnvironmentFault>([&] { (void)load_secret({"", path}); });
  }
  ::chmod(path.c_str(), 0400);
  EXPECT_EQ(load_secret({path, {}}), counting());
}

TEST(JobSecret, IsPrivateToItsUserOrAFileOfRootThatAGroupMayRead) {
  constexpr uid_t kSelf = 1000;
  struct Row {
    uid_t owner;
    mode_t mode;
    bool is_private;
  };
  for (const Row& row :
       {Row{kSelf, 0600, true}, Row{kSelf, 0400, true}, Row{kSelf, 0640, false},
        Row{kSelf, 0440, false}, Row{kSelf, 0604, false}, Row{0, 0400, true}, Row{0, 0440, true},
        Row{0, 0640, true}, Row{0, 0444, false}, Row{0, 0644, false}, Row{0, 0660, false},
        Row{0, 0450, false}, Row{0, 0404, false}, Row{1001, 0600, false}, Row{1001, 0440, false}}) {
    const auto trouble = why_not_private("f", row.owner, S_IFREG | row.mode, kSelf);
    EXPECT_EQ(!trouble, row.is_private) << row.owner << " " << std::oct << row.mode;
  }
  EXPECT_FALSE(why_not_private("f", 0, 0440, 0)) << "a pod whose user is root";
  const auto mounted = why_not_private("/etc/s/secret", 0, 0644, kSelf);
  EXPECT_NE(mounted->fix.find("defaultMode: 0400"), std::string::npos) << mounted->fix;
  EXPECT_NE(mounted->fix.find("fsGroup"), std::string::npos);
  EXPECT_EQ(why_not_private("f", kSelf, 0644, kSelf)->fix, "chmod 600 f");
}

TEST(JobSecret, IsFoundBehindTheLinksThatKubernetesMakes) {
  const test::ScratchFolder folder;
  std::filesystem::create_directory(folder.path() / "..2026");
  std::filesystem::create_directory_symlink("..2026", folder.path() / "..data");
  std::filesystem::create_symlink("..data/secret", folder.path() / "link");
  ::chmod(folder.write("..2026/secret", kHex).c_str(), 0400);
  EXPECT_EQ(load_secret({folder.file("link"), {}}), counting());
}

TEST(JobSecret, MissingOrNoFileIsSaid) {
  const test::ScratchFolder folder;
  (void)test::problem_of<UsageError>([&] { (void)load_secret({folder.file("none"), {}}); });
  (void)test::problem_of<UsageError>([&] { (void)load_secret({folder.path().string(), {}}); });
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  (void)test::problem_of<UsageError>([&] { (void)load_secret({pipe, {}}); });
}

TEST(JobSecret, IsReadFromADescriptorThatIsClosedAfterwards) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  Fd in(ends[1]);
  ASSERT_EQ(::write(in.get(), kHex.data(), kHex.size()), static_cast<ssize_t>(kHex.size()));
  in.reset();
  const std::string named = "fd:" + std::to_string(ends[0]);
  EXPECT_EQ(load_secret({named, {}}), counting());
  EXPECT_EQ(::fcntl(ends[0], F_GETFD), -1);
  (void)test::problem_of<UsageError>([&] { (void)load_secret({named, {}}); });
  for (const char* wrong : {"fd:", "fd:x", "fd:-1", "fd:3x"}) {
    (void)test::problem_of<UsageError>([&] { (void)load_secret({wrong, {}}); });
  }
}

TEST(JobSecret, IsMadeOnceForAllAgentsThatStartTogether) {
  const test::ScratchFolder folder;
  const auto path = folder.path() / "config" / "lockstep" / "job-secret";
  std::array<Secret, 8> secrets{};
  std::vector<std::thread> agents;
  for (Secret& secret : secrets) {
    agents.emplace_back([&] { secret = load_secret({"", path}); });
  }
  for (auto& agent : agents) agent.join();
  for (const Secret& secret : secrets) EXPECT_EQ(secret, secrets[0]);
  EXPECT_NE(secrets[0], Secret{});
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  const auto beside = std::filesystem::directory_iterator(path.parent_path());
  EXPECT_EQ(std::distance(begin(beside), end(beside)), 1) << "a half-written file was left";
}

TEST(JobSecret, GivesEveryJobAKeyOfItsOwn) {
  const JobKey key = job_key(counting(), "a");
  EXPECT_EQ(key.key, hmac_sha256(counting(), "a"));
  EXPECT_NE(job_key(counting(), "b").key, key.key);
  EXPECT_NE(job_key(counting(), "b").job, key.job);
  EXPECT_NE(job_key(random_secret(), "a").key, key.key);
  EXPECT_EQ(job_key(random_secret(), "a").job, key.job) << "what is sent in clear tells the secret";
}

}  // namespace
}  // namespace lockstep::rendezvous
