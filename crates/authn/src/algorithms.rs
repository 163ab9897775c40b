//! Signature algorithms of tokens.

use jsonwebtoken::Algorithm;

/// Algorithms that issuers may use. All are asymmetric: the key that verifies cannot sign.
pub(super) const ALGORITHMS: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

/// Returns the algorithm with this name.
pub(super) fn algorithm(name: &str) -> Option<Algorithm> {
    ALGORITHMS.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
}
