/* The training loop of `reinforce` on two-rooms with one hyperplane, in plain scalar C: the yardstick of rooms.py.

   Each update plays complete episodes under one policy, sums return times score with the mean return as a baseline,
   and takes a gradient step so small that the policy stays near its start. World and policy are those of
   src/asap/envs/rooms.py and envs/catalog.py; the score is that of the sampled skill.

   Usage: rooms_loop EPISODES UPDATES. Prints one JSON line. */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SKILLS = 2, ACTIONS = 4, FEATURES = 3, HORIZON = 400 };
enum { UP, DOWN, RIGHT, LEFT };

static const float ALPHA_BETA = 20, MOVE = 0.05f, NOISE = 0.01f, DISCOUNT = 0.99f;
static const float WALL = 0.5f, DOOR_LOW = 0.7f, DOOR_HIGH = 1, GOAL_X = 0.9f, GOAL_Y = 0.1f, GOAL_HALF_WIDTH = 0.1f;
static const float STEP_REWARD = -1, GOAL_REWARD = 100, STEP_SIZE = 1e-9f;

typedef struct { float x, y; } Position;
typedef struct { double beta[FEATURES], theta[SKILLS][ACTIONS]; } Parameters; /* Or a sum of scores. */
typedef struct { float beta[FEATURES], sigma[SKILLS][ACTIONS]; } Policy;      /* sigma: the skills' distributions. */
typedef struct { Parameters score; float discounted; int length; } Episode;

static uint64_t random_state = 88172645463325252u;

/* Uniform in (0, 1) with 24 bits, from Marsaglia's xorshift64. */
static inline float uniform(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return ((random_state >> 40) + 0.5f) * 0x1p-24f;
}

static Policy policy_of(const Parameters *parameters) {
    Policy policy;
    for (int f = 0; f < FEATURES; f++) policy.beta[f] = parameters->beta[f];
    for (int i = 0; i < SKILLS; i++) {
        float total = 0;
        for (int a = 0; a < ACTIONS; a++) total += policy.sigma[i][a] = expf(parameters->theta[i][a]);
        for (int a = 0; a < ACTIONS; a++) policy.sigma[i][a] /= total;
    }
    return policy;
}

static inline int draw_action(const float sigma[ACTIONS]) {
    float u = uniform(), cumulative = sigma[0];
    int action = 0;
    while (action < ACTIONS - 1 && u > cumulative) cumulative += sigma[++action];
    return action;
}

/* A move, undone where it leaves the square or crosses the wall beside the door. */
static inline Position move(Position from, int action) {
    float radius = NOISE * sqrtf(-2 * logf(uniform())), angle = 6.2831853f * uniform();
    float x = from.x + radius * cosf(angle) + (action == RIGHT ? MOVE : action == LEFT ? -MOVE : 0);
    float y = from.y + radius * sinf(angle) + (action == UP ? MOVE : action == DOWN ? -MOVE : 0);
    bool blocked = x < 0 || x > 1 || y < 0 || y > 1;
    if ((from.x >= WALL) != (x >= WALL)) {
        float crossing_y = from.y + (y - from.y) * (WALL - from.x) / (x - from.x);
        blocked |= !(crossing_y >= DOOR_LOW && crossing_y <= DOOR_HIGH);
    }
    return blocked ? from : (Position){x, y};
}

static inline bool at_goal(Position at) {
    return fabsf(at.x - GOAL_X) <= GOAL_HALF_WIDTH && fabsf(at.y - GOAL_Y) <= GOAL_HALF_WIDTH;
}

/* One complete episode with its score: visits of the skills count, and their mean is subtracted at the end. */
static Episode play(const Policy *policy) {
    float beta[FEATURES] = {0}, discounted = 0, weight = 1;
    int visits[SKILLS][ACTIONS] = {{0}}, length = 0;
    Position at = {WALL * uniform(), uniform()};
    for (bool done = false; !done && length < HORIZON; length++) {
        float margin = policy->beta[0] + policy->beta[1] * at.x + policy->beta[2] * at.y;
        float p = 1 / (1 + expf(-ALPHA_BETA * margin));
        int skill = uniform() < p, action = draw_action(policy->sigma[skill]);
        float slope = ALPHA_BETA * (skill - p);
        beta[0] += slope;
        beta[1] += slope * at.x;
        beta[2] += slope * at.y;
        visits[skill][action]++;
        at = move(at, action);
        done = at_goal(at);
        discounted += weight * (STEP_REWARD + (done ? GOAL_REWARD : 0));
        weight *= DISCOUNT;
    }
    Episode episode = {.discounted = discounted, .length = length};
    for (int f = 0; f < FEATURES; f++) episode.score.beta[f] = beta[f];
    for (int i = 0; i < SKILLS; i++) {
        int total = 0;
        for (int a = 0; a < ACTIONS; a++) total += visits[i][a];
        for (int a = 0; a < ACTIONS; a++) episode.score.theta[i][a] = visits[i][a] - total * policy->sigma[i][a];
    }
    return episode;
}

static void add_scaled(Parameters *sum, double scale, const Parameters *term) {
    for (int f = 0; f < FEATURES; f++) sum->beta[f] += scale * term->beta[f];
    for (int i = 0; i < SKILLS; i++)
        for (int a = 0; a < ACTIONS; a++) sum->theta[i][a] += scale * term->theta[i][a];
}

/* Mean of (R - mean R of the other episodes) times score; returns the steps played. */
static long estimate_gradient(const Parameters *parameters, int episodes, Parameters *gradient) {
    Policy policy = policy_of(parameters);
    Parameters weighted = {0}, plain = {0};
    double returns = 0;
    long steps = 0;
    for (int e = 0; e < episodes; e++) {
        Episode episode = play(&policy);
        add_scaled(&weighted, episode.discounted, &episode.score);
        add_scaled(&plain, 1, &episode.score);
        returns += episode.discounted;
        steps += episode.length;
    }
    *gradient = (Parameters){0};
    add_scaled(gradient, 1.0 / (episodes - 1), &weighted);
    add_scaled(gradient, -returns / episodes / (episodes - 1), &plain);
    return steps;
}

static double seconds_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static void print_list(const char *name, const double *values, int count) {
    printf(", \"%s\": [", name);
    for (int i = 0; i < count; i++) printf("%s%.6g", i ? ", " : "", values[i]);
    printf("]");
}

int main(int count, char **arguments) {
    int episodes = count == 3 ? atoi(arguments[1]) : 0, updates = count == 3 ? atoi(arguments[2]) : 0;
    if (episodes < 2 || updates < 1) {
        fprintf(stderr, "usage: rooms_loop EPISODES UPDATES (at least 2 and 1)\n");
        return 2;
    }
    Parameters parameters = {.beta = {-0.5, 0, 1}}, gradient; /* The misspecified start; uniform skills. */
    long steps = 0;
    double began = seconds_of(CLOCK_MONOTONIC), busy = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    for (int update = 0; update < updates; update++) {
        steps += estimate_gradient(&parameters, episodes, &gradient);
        add_scaled(&parameters, STEP_SIZE, &gradient);
    }
    double seconds = seconds_of(CLOCK_MONOTONIC) - began;
    busy = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - busy;
    printf("{\"steps\": %ld, \"seconds\": %.6f, \"busy_seconds\": %.6f", steps, seconds, busy);
    printf(", \"ns_per_step\": %.3f", 1e9 * seconds / steps);
    printf(", \"mean_length\": %.3f", (double)steps / episodes / updates);
    print_list("gradient_beta", gradient.beta, FEATURES);
    print_list("gradient_theta", gradient.theta[0], SKILLS * ACTIONS);
    printf("}\n");
    return 0;
}
