"""Private releases as estimators of scikit-learn, beside those of pyRiemann. Needs the extra ``geodp[sklearn]``.

================================  =====================================================  =============================
here                              what a fit releases                                    for
================================  =====================================================  =============================
:class:`PrivateFrechetMean`       a mean                                                 none
:class:`PrivateTangentSpace`      coordinates about a private reference point            pyRiemann's ``TangentSpace``
:class:`PrivateMDM`               a classifier: minimum distance to private means        pyRiemann's ``MDM``
:class:`PrivateKMeans`            clusters                                               pyRiemann's ``Kmeans``
================================  =====================================================  =============================

*Fits add up.* Each ``fit`` spends the privacy that was asked for, once. A cross-validation with five folds and a grid of four
parameters is 20 fits on nearly the same records, and one more for the best. With a ``ledger`` each of them is charged, clones
included, and the fit that would pass the total is refused. :func:`private_cross_val_score` charges a cross-validation as a whole
before its first fit: a record is in all training sets but one. Without a ledger the fits of an estimator and its clones are
counted, also in other processes of the same machine (``n_jobs``), and the second, fourth, eighth fit and so on warn what they
add up to.

*What is private and what is not.* What a fit learned may be published: attributes that end with an underscore, among them its
receipts ``releases_`` and what they cost together, ``cost_``. What ``transform`` and ``predict`` make **of private
records is private data**: every row is about one record, and no noise hides it. So is a score on private records.
``fit_transform`` and ``fit_predict``, which would hand out rows about the very records that a fit protects, refuse unless
``transform_private_records`` is true.
"""

from geodp.estimator.classifier import PrivateMDM
from geodp.estimator.clusters import PrivateKMeans
from geodp.estimator.common import Parameters
from geodp.estimator.mean import PrivateFrechetMean, PrivateTangentSpace
from geodp.estimator.validation import private_cross_val_score

__all__ = ["Parameters", "PrivateFrechetMean", "PrivateKMeans", "PrivateMDM", "PrivateTangentSpace", "private_cross_val_score"]
